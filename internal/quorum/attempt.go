package quorum

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// An attempt is one way to a lease: it asks the nodes, and waits for them. The mutex of Locks guards it.
type attempt struct {
	e       *entry
	begun   time.Time
	terms   *core.Request // of the caller that it is made for
	phase   phase
	order   func(i int) *node
	first   *node     // in whose queue it waits
	ballots []*ballot // by node: the last one that was made for it; nil: none
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

// begin begins the attempt, or begins it anew.
func (a *attempt) begin() {
	l := a.e.l
	if l.wantsTrust(a.e.key) {
		a.phase = starting
		l.trustNodes(a.e.key, func() {
			if !a.over && a.phase == starting {
				a.ask()
			}
		})
		return
	}
	if !l.majorityMayAnswer() {
		a.phase = starting
		l.probeAll(a.e.key, a.onProbed)
		return
	}
	a.ask()
}

// onProbed goes on when nodes were asked whether they answer: an attempt that cannot have enough of them must not keep others
// from those that it can have, be it for a moment.
func (a *attempt) onProbed() {
	switch l := a.e.l; {
	case a.over || a.phase != starting:
	case l.majorityMayAnswer():
		a.ask()
	default:
		a.e.failAll(&core.AcquireError{Err: a.unavailable()}, (*localq.Waiter).IsHurried)
		a.pauseOrEnd()
	}
}

// granted returns the nodes that count.
func (a *attempt) granted() (list []*ballot) {
	for _, b := range a.ballots {
		if b.counts() {
			list = append(list, b)
		}
	}
	return list
}

// open returns how many answers are to come, and how many nodes the attempt waits for.
func (a *attempt) open() (asked, inQueue int) {
	for _, b := range a.ballots {
		switch {
		case b == nil:
		case b.state == asking:
			asked++
		case b.state == queued:
			inQueue++
		}
	}
	return asked, inQueue
}

// answered returns how many nodes have granted or refused the lock.
func (a *attempt) answered() (n int) {
	for _, b := range a.ballots {
		if b != nil && (b.state == granted || b.state == queued || b.state == refused) {
			n++
		}
	}
	return n
}

// step goes on after something has happened.
func (a *attempt) step() {
	if a.over {
		return
	}
	switch a.phase {
	case asks, climbs, waits:
		a.count()
	case raises:
		a.onRaised()
	}
}

// count looks whether the attempt has enough nodes.
func (a *attempt) count() {
	k := a.e.l.cfg.Quorum
	have := a.granted()
	asked, inQueue := a.open()
	if asked == 0 && len(have) >= k && a.e.l.cfg.Tokens {
		have = a.withoutOutliers(have)
	}
	switch {
	case len(have) >= k:
		a.settle(have, asked)
	case a.phase == waits:
		a.onWaits(asked + inQueue)
	case len(have)+asked < k && !(a.phase == climbs && inQueue > 0):
		a.fail(have)
	case a.phase == climbs:
		a.climb()
	}
}

// withoutOutliers gives up nodes whose tokens are not believed, and returns the others.
func (a *attempt) withoutOutliers(have []*ballot) []*ballot {
	far := outliers(have)
	for _, b := range far {
		b.drop()
		b.state, b.err, a.why = failed, errTokenAhead, errTokenAhead
	}
	if len(far) > 0 {
		return a.granted()
	}
	return have
}

// settle finds out the token of an attempt that has enough nodes.
func (a *attempt) settle(have []*ballot, asked int) {
	l := a.e.l
	a.chosen = choose(have, l.cfg.Quorum)
	switch {
	case a.chosen.last >= a.chosen.first, !l.cfg.Tokens:
		a.succeed(have)
	case asked > 0 && !a.isPatient: // their tokens may spare the others a raise
		a.after(max(raiseGrace, time.Since(a.begun)), func() {
			a.isPatient = true
			a.step()
		})
	case asked > 0 && len(outliers(have)) > 0: // the others' tokens say who is right
	default:
		a.raise()
	}
}

// raise has the nodes know the token that have given a lesser one.
func (a *attempt) raise() {
	a.phase = raises
	a.stopTimer()
	a.onRaised()
}

// raiseRest raises the nodes that count and do not know the token. Some of them may have answered after it was chosen.
func (a *attempt) raiseRest() {
	for _, b := range a.granted() {
		if b.knows >= a.chosen.first || b.raising {
			continue
		}
		a.raising++
		b.raise(a.chosen.first, a.chosen.first+int64(a.e.tokensWanted())-1, func(err error) {
			if a.over || a.phase != raises || a.ballots[b.n.index] != b {
				return
			}
			a.raising--
			if err != nil {
				b.drop()
				b.state, b.err, a.why = failed, err, err
			}
			a.step()
		})
	}
}

// onRaised begins the lease when enough nodes count and know its token: deadlines are looked at after the last answer. A node that
// has answered late may stand for one that does not count any more, and may have given a greater token.
func (a *attempt) onRaised() {
	k := a.e.l.cfg.Quorum
	have := a.withoutOutliers(a.granted())
	if len(have) >= k {
		a.chosen.first = max(a.chosen.first, choose(have, k).first)
		if lastKnown(have, k) >= a.chosen.first {
			a.chosen.last = lastKnown(have, k)
			a.succeed(have)
			return
		}
	}
	a.raiseRest()
	if asked, _ := a.open(); a.raising == 0 && len(a.granted())+asked < k {
		a.phase = asks
		a.fail(a.granted())
	}
}

// succeed makes a lease of what the nodes have granted.
func (a *attempt) succeed(have []*ballot) {
	e := a.e
	lead := e.waiters.Leader()
	switch {
	case lead == nil:
		a.giveUp()
		return
	case lead.Req.Lease != a.terms.Lease || lead.Req.Fixed != a.terms.Fixed: // who it was made for has left
		a.retreat()
		a.begin()
		return
	}
	a.end()
	e.delays, e.holders, e.contended = 0, nil, false
	newLease(e, lead, a.chosen, have, a.ballots)
}

// giveUp ends an attempt that nobody waits for. There may be callers whose time has ended, and who do not know it yet.
func (a *attempt) giveUp() {
	a.e.why = a.whyInVain()
	a.end()
	drop(a.ballots)
	a.e.tidy()
}

// end ends the attempt. What it has asked for is somebody else's.
func (a *attempt) end() {
	a.over = true
	a.stopTimer()
	if a.e.attempt == a {
		a.e.attempt = nil
	}
}

// after has f called later, with l.mu held, unless the attempt is over or another timer is set before.
func (a *attempt) after(d time.Duration, f func()) {
	a.stopTimer()
	id, l := a.timerID, a.e.l
	a.timer = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !a.over && a.timerID == id {
			f()
		}
	})
}

func (a *attempt) stopTimer() {
	a.timerID++
	if a.timer != nil {
		a.timer.Stop()
	}
}

// background is what requests that no caller waits for are sent with.
var background = context.Background()
