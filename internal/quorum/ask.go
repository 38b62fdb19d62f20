package quorum

import (
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// ask asks all nodes together. A node that is unreachable is left out, unless it is needed.
func (b *bid) ask() {
	e, l, now := b.e, b.e.l, time.Now()
	lead := e.waiters.Leader()
	if lead == nil {
		b.giveUp()
		return
	}
	b.phase, b.isPatient, b.isRefused, b.chosen, b.raising = asks, false, false, choice{}, 0
	b.terms, b.begun, b.joined = lead.Req, now, e.waiters.Joined
	if b.order == nil {
		b.order = l.order(e.key)
	}
	all := !l.majorityMayAnswer()
	b.first = b.findFirst()
	queue := l.majority(now) && e.waits()
	token := l.propose(now)
	for _, n := range l.nodes {
		if n.unreachable && !all {
			continue
		}
		wait := time.Duration(0)
		if queue && n == b.first {
			wait = core.Forever
		}
		b.request(n, wait, token, lead.Req.Wait != 0).send(lead.Ctx)
	}
}

// request makes the next request of the bid at a node, which proposes a token; 0 for none.
func (b *bid) request(n *node, wait time.Duration, token int64, notifyHolder bool) *vote {
	v := b.e.newVote(n, b.terms, wait)
	v.bid, v.extra.Token, v.extra.Tokens, v.extra.NotifyHolder = b, token, b.e.tokensWanted(), notifyHolder
	b.votes[n.index] = v
	return v
}

// findFirst returns the first node of the key's order that answers, and has not just refused the key. If all nodes are needed, it is
// the first of the order.
func (b *bid) findFirst() *node {
	if b.e.l.cfg.Quorum < len(b.order) {
		for _, n := range b.order {
			if !n.unreachable && !b.votes[n.index].refusesKey() {
				return n
			}
		}
	}
	return b.order[0]
}

// queueAt queues the bid at a node.
func (b *bid) queueAt(n *node, lead *localq.Waiter) {
	token := int64(0)
	if first := b.votes[b.first.index]; first.is(granted) {
		token = first.hold.Token()
	}
	b.votes[n.index].drop()
	v := b.request(n, core.Forever, token, true)
	v.req.WantsMoves = n == b.first
	v.send(lead.Ctx)
}

// askRest asks the other nodes when the first has granted the lock.
func (b *bid) askRest(first *vote) {
	e, lead := b.e, b.e.waiters.Leader()
	if lead == nil {
		b.giveUp()
		return
	}
	b.phase, b.isPatient, b.begun = inOrder, false, time.Now()
	b.after(inOrderTime, b.delay)
	for _, n := range e.l.nodes {
		if n == b.first || n.unreachable && e.l.cfg.Quorum < len(e.l.nodes) {
			continue
		}
		b.request(n, 0, first.hold.Token(), true).send(lead.Ctx)
	}
	if b.in(asking) == 0 {
		b.count()
	}
}
