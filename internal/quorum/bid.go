package quorum

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// A bid is one way to a lease: it asks the nodes, and waits for them. The mutex of Locks guards it.
type bid struct {
	e       *entry
	begun   time.Time
	terms   *core.Request // of the caller that it is made for
	phase   phase
	order   func(i int) *node
	first   *node   // in whose queue it waits
	votes   []*vote // by node: the last one that was made for it; nil: none
	timer   *time.Timer
	timerID int // of the timer that counts

	isRefused bool // somebody else has the lock
	isPatient bool // enough time was given to nodes that have not answered
	chosen    choice
	raising   int   // how many answers are to come
	tokens    int   // that it wants
	joined    int64 // how many callers had joined when the nodes were asked
	why       error // why it came to nothing though nobody was in the way; nil: that is not known
	over      bool
}

type phase int8

const (
	starting phase = iota // nodes are looked at: too few have answered, or some may have forgotten tokens
	asks                  // all nodes at once
	raises                // nodes that have given lesser tokens
	waits                 // in the queue of the first node
	climbs                // in the queues of the next ones, as it has the first
	pauses                // before it begins anew
)

// begin begins the bid, or begins it anew.
func (b *bid) begin() {
	l := b.e.l
	if l.wantsTrust(b.e.key) {
		b.phase = starting
		l.trustNodes(b.e.key, func() {
			if !b.over && b.phase == starting {
				b.ask()
			}
		})
		return
	}
	if !l.majorityMayAnswer() {
		b.phase = starting
		l.probeAll(b.e.key, b.onProbed)
		return
	}
	b.ask()
}

// onProbed goes on when nodes were asked whether they answer: a bid that cannot have enough of them must not keep others
// from those that it can have, be it for a moment.
func (b *bid) onProbed() {
	switch l := b.e.l; {
	case b.over || b.phase != starting:
	case l.majorityMayAnswer():
		b.ask()
	default:
		b.e.failAll(&core.AcquireError{Err: b.unavailable()}, (*localq.Waiter).FailsFast)
		b.pauseOrEnd()
	}
}

// granted returns the nodes that count.
func (b *bid) granted() (list []*vote) {
	for _, v := range b.votes {
		if v.counts() {
			list = append(list, v)
		}
	}
	return list
}

// open returns how many answers are to come, and how many nodes the bid waits for.
func (b *bid) open() (asked, inQueue int) {
	for _, v := range b.votes {
		switch {
		case v == nil:
		case v.state == asking:
			asked++
		case v.state == queued:
			inQueue++
		}
	}
	return asked, inQueue
}

// answered returns how many nodes have granted or refused the lock.
func (b *bid) answered() (n int) {
	for _, v := range b.votes {
		if v != nil && (v.state == granted || v.state == queued || v.state == refused) {
			n++
		}
	}
	return n
}

// step goes on after something has happened.
func (b *bid) step() {
	if b.over {
		return
	}
	switch b.phase {
	case asks, climbs, waits:
		b.count()
	case raises:
		b.onRaised()
	}
}

// count looks whether the bid has enough nodes.
func (b *bid) count() {
	k := b.e.l.cfg.Quorum
	have := b.granted()
	asked, inQueue := b.open()
	if asked == 0 && len(have) >= k && b.e.l.cfg.Tokens {
		have = b.withoutOutliers(have)
	}
	switch {
	case len(have) >= k:
		b.settle(have, asked)
	case b.phase == waits:
		b.onWaits(asked + inQueue)
	case len(have)+asked < k && !(b.phase == climbs && inQueue > 0):
		b.fail(have)
	case b.phase == climbs:
		b.climb()
	}
}

// withoutOutliers gives up nodes whose tokens are not believed, and returns the others.
func (b *bid) withoutOutliers(have []*vote) []*vote {
	far := outliers(have)
	for _, v := range far {
		v.drop()
		v.state, v.err, b.why = failed, errTokenAhead, errTokenAhead
	}
	if len(far) > 0 {
		return b.granted()
	}
	return have
}

// settle finds out the token of a bid that has enough nodes.
func (b *bid) settle(have []*vote, asked int) {
	l := b.e.l
	b.chosen = choose(have, l.cfg.Quorum)
	switch {
	case b.chosen.last >= b.chosen.first, !l.cfg.Tokens:
		b.succeed(have)
	case asked > 0 && !b.isPatient: // their tokens may spare the others a raise
		b.after(max(raiseGrace, time.Since(b.begun)), func() {
			b.isPatient = true
			b.step()
		})
	case asked > 0 && len(outliers(have)) > 0: // the others' tokens say who is right
	default:
		b.raise()
	}
}

// raise has the nodes know the token that have given a lesser one.
func (b *bid) raise() {
	b.phase = raises
	b.stopTimer()
	b.onRaised()
}

// raiseRest raises the nodes that count and do not know the token. Some of them may have answered after it was chosen.
func (b *bid) raiseRest() {
	for _, v := range b.granted() {
		if v.knows >= b.chosen.first || v.raising {
			continue
		}
		b.raising++
		v.raise(b.chosen.first, b.chosen.first+int64(b.e.tokensWanted())-1, func(err error) {
			if b.over || b.phase != raises || b.votes[v.n.index] != v {
				return
			}
			b.raising--
			if err != nil {
				v.drop()
				v.state, v.err, b.why = failed, err, err
			}
			b.step()
		})
	}
}

// onRaised begins the lease when enough nodes count and know its token: deadlines are looked at after the last answer. A node that
// has answered late may stand for one that does not count any more, and may have given a greater token.
func (b *bid) onRaised() {
	k := b.e.l.cfg.Quorum
	have := b.withoutOutliers(b.granted())
	if len(have) >= k {
		b.chosen.first = max(b.chosen.first, choose(have, k).first)
		if lastKnown(have, k) >= b.chosen.first {
			b.chosen.last = lastKnown(have, k)
			b.succeed(have)
			return
		}
	}
	b.raiseRest()
	if asked, _ := b.open(); b.raising == 0 && len(b.granted())+asked < k {
		b.phase = asks
		b.fail(b.granted())
	}
}

// succeed makes a lease of what the nodes have granted.
func (b *bid) succeed(have []*vote) {
	e := b.e
	lead := e.waiters.Leader()
	switch {
	case lead == nil:
		b.giveUp()
		return
	case lead.Req.Lease != b.terms.Lease || lead.Req.Fixed != b.terms.Fixed: // who it was made for has left
		b.retreat()
		b.begin()
		return
	}
	b.end()
	e.delays, e.holders, e.contended = 0, nil, false
	newLease(e, lead, b.chosen, have, b.votes)
}

// giveUp ends a bid that nobody waits for. There may be callers whose time has ended, and who do not know it yet.
func (b *bid) giveUp() {
	b.e.why = b.whyInVain()
	b.end()
	drop(b.votes)
	b.e.tidy()
}

// end ends the bid. What it has asked for is somebody else's.
func (b *bid) end() {
	b.over = true
	b.stopTimer()
	if b.e.bid == b {
		b.e.bid = nil
	}
}

// after has f called later, with l.mu held, unless the bid is over or another timer is set before.
func (b *bid) after(d time.Duration, f func()) {
	b.stopTimer()
	id, l := b.timerID, b.e.l
	b.timer = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !b.over && b.timerID == id {
			f()
		}
	})
}

func (b *bid) stopTimer() {
	b.timerID++
	if b.timer != nil {
		b.timer.Stop()
	}
}

// background is what requests that no caller waits for are sent with.
var background = context.Background()
