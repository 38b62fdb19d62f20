package quorum

import (
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// ask asks the nodes, all at once. One that is away is left out, unless it is needed.
func (a *attempt) ask() {
	e, l, now := a.e, a.e.l, time.Now()
	lead := e.waiters.Leader()
	if lead == nil {
		a.giveUp()
		return
	}
	a.phase, a.isPatient, a.isRefused, a.chosen, a.raising = asks, false, false, choice{}, 0
	a.terms, a.begun, a.joined = lead.Req, now, e.waiters.Joined
	if a.order == nil {
		a.order = l.order(e.key)
	}
	present := 0
	for _, n := range l.nodes {
		if !n.away {
			present++
		}
	}
	all := present < l.cfg.Quorum
	a.first = a.findFirst()
	queue := l.majority(now) && e.waits()
	token := l.propose(now)
	for _, n := range l.nodes {
		if n.away && !all {
			continue
		}
		wait := time.Duration(0)
		if queue && n == a.first {
			wait = core.Forever
		}
		b := e.newBallot(n, a.terms, wait)
		b.attempt, b.vote.Token, b.vote.Tokens, b.vote.Wants = a, token, e.tokensWanted(), lead.Req.Wait != 0
		a.ballots[n.index] = b
		b.send(lead.Ctx)
	}
}

// findFirst returns the first node of the key's order that answers. If all nodes are needed, it is the first of all.
func (a *attempt) findFirst() *node {
	l := a.e.l
	if l.cfg.Quorum < len(l.nodes) {
		for i := range l.nodes {
			if n := a.order(i); !n.away {
				return n
			}
		}
	}
	return a.order(0)
}

// queueAt has the attempt wait in the queue of a node.
func (a *attempt) queueAt(n *node, lead *localq.Waiter) {
	b := a.e.newBallot(n, a.terms, core.Forever)
	b.attempt, b.vote.Tokens, b.vote.Wants = a, a.e.tokensWanted(), true
	if first := a.ballots[a.first.index]; first != nil && first.state == granted {
		b.vote.Token = first.hold.Token()
	}
	if was := a.ballots[n.index]; was != nil {
		was.drop()
	}
	a.ballots[n.index] = b
	b.req.WantsMoves = n == a.first
	b.send(lead.Ctx)
}

// askRest asks the other nodes when the first is had.
func (a *attempt) askRest(first *ballot) {
	e, lead := a.e, a.e.waiters.Leader()
	if lead == nil {
		a.giveUp()
		return
	}
	a.phase, a.isPatient, a.begun = climbs, false, time.Now()
	a.after(climbTime, a.delay)
	for _, n := range e.l.nodes {
		if n == a.first || n.away && e.l.cfg.Quorum < len(e.l.nodes) {
			continue
		}
		b := e.newBallot(n, a.terms, 0)
		b.attempt, b.vote.Token, b.vote.Tokens, b.vote.Wants = a, first.hold.Token(), e.tokensWanted(), true
		a.ballots[n.index] = b
		b.send(lead.Ctx)
	}
	if asked, _ := a.open(); asked == 0 {
		a.count()
	}
}
