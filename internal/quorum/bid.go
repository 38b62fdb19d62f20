package quorum

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// A bid is one attempt to get a lease: it asks the nodes and waits for them. The mutex of Locks guards it.
type bid struct {
	e       *entry
	begun   time.Time
	terms   *core.Request // of the caller for which the bid is made
	phase   phase
	order   []*node
	first   *node   // in whose queue the bid waits
	votes   []*vote // by node: its last request of this bid; nil: none
	timer   *time.Timer
	timerID int // of the timer that counts; earlier timers have no effect

	isRefused bool // another process holds the lock
	isPatient bool // nodes that have not answered had enough time
	chosen    choice
	raising   int   // answers to come
	tokens    int   // wanted
	joined    int64 // how many callers had joined when the nodes were asked
	why       error // why it failed although nobody held the lock; nil: unknown
	over      bool
}

type phase int8

const (
	starting phase = iota // checks nodes: too few have answered, or some may have lost tokens
	asks                  // asks all nodes together
	raises                // raises nodes that gave smaller tokens
	waits                 // waits in the queue of the first node
	inOrder               // holds the first node, and queues at the others one after the other
	pauses                // waits before it begins anew
)

// begin begins the bid, or begins it anew.
func (b *bid) begin() {
	l := b.e.l
	if l.mustVerify(b.e.key) {
		b.phase = starting
		l.verifyNodes(b.e.key, func() {
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

// onProbed continues after nodes were asked whether they answer. A bid that cannot have enough of them must not take any, not
// even for a moment: it would block other processes.
func (b *bid) onProbed() {
	switch l := b.e.l; {
	case b.over || b.phase != starting:
	case l.majorityMayAnswer():
		b.ask()
	case l.majorityIsFinal():
		b.abandon(b.unavailable())
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

// in returns how many requests have one of these states.
func (b *bid) in(states ...voteState) int {
	return count(b.votes, func(v *vote) bool { return v.is(states...) })
}

// step continues after an event.
func (b *bid) step() {
	if b.over {
		return
	}
	switch b.phase {
	case asks, inOrder, waits:
		b.count()
	case raises:
		b.onRaised()
	}
}

// count checks whether the bid has enough nodes.
func (b *bid) count() {
	k := b.e.l.cfg.Quorum
	have := b.granted()
	asked, inQueue := b.in(asking), b.in(queued)
	if asked == 0 && len(have) >= k && b.e.l.cfg.Tokens {
		have = b.withoutOutliers(have)
	}
	switch {
	case len(have) >= k:
		b.chooseTokens(have, asked)
	case b.phase == waits:
		b.onWaits(asked + inQueue)
	case len(have)+asked < k && !(b.phase == inOrder && inQueue > 0):
		b.fail(have)
	case b.phase == inOrder:
		b.acquireInOrder()
	}
}

// withoutOutliers gives up nodes whose tokens are not accepted, and returns the others.
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

// chooseTokens chooses the tokens of a bid that has enough nodes.
func (b *bid) chooseTokens(have []*vote, asked int) {
	l := b.e.l
	b.chosen = choose(have, l.cfg.Quorum)
	switch {
	case b.chosen.last >= b.chosen.first, !l.cfg.Tokens:
		b.succeed(have)
	case asked > 0 && !b.isPatient: // with their tokens, the other nodes may not need a raise
		b.after(max(raiseGrace, time.Since(b.begun)), func() {
			b.isPatient = true
			b.step()
		})
	case asked > 0 && len(outliers(have)) > 0: // the tokens still to come show which ones are right
	default:
		b.phase = raises
		b.stopTimer()
		b.onRaised()
	}
}

// raiseRest raises the nodes that count and whose counters are below the token. Some may have answered after it was chosen.
func (b *bid) raiseRest() {
	for _, v := range b.granted() {
		if v.counter >= b.chosen.first || v.raising {
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

// onRaised begins the lease when enough nodes count and have its token in their counters. Deadlines are checked after the last
// answer. A node that answered late may replace one that no longer counts, and may have given a greater token.
func (b *bid) onRaised() {
	k := b.e.l.cfg.Quorum
	have := b.withoutOutliers(b.granted())
	if len(have) >= k {
		b.chosen.first = max(b.chosen.first, choose(have, k).first)
		if lastReached(have, k) >= b.chosen.first {
			b.chosen.last = lastReached(have, k)
			b.succeed(have)
			return
		}
	}
	b.raiseRest()
	if b.raising == 0 && len(b.granted())+b.in(asking) < k {
		b.phase = asks
		b.fail(b.granted())
	}
}

// succeed makes a lease of the grants of these nodes.
func (b *bid) succeed(have []*vote) {
	e := b.e
	lead := e.waiters.Leader()
	switch {
	case lead == nil:
		b.giveUp()
		return
	case lead.Req.Lease != b.terms.Lease || lead.Req.Fixed != b.terms.Fixed: // the caller for which it was made has left
		b.dropAll()
		b.begin()
		return
	}
	b.end()
	e.delays, e.holders, e.contended = 0, nil, false
	newLease(e, lead, b.chosen, have, b.votes)
}

// giveUp ends a bid for which no caller waits. There may be callers whose time has ended and that have not returned yet.
func (b *bid) giveUp() {
	b.e.why = b.whyUnavailable(localq.SlowAnswer)
	b.end()
	drop(b.votes)
	b.e.removeIfIdle()
}

// end ends the bid. The caller must drop its requests, or make a lease of them.
func (b *bid) end() {
	b.over = true
	b.stopTimer()
	if b.e.bid == b {
		b.e.bid = nil
	}
}

// after calls f later, with l.mu held, unless the bid has ended or another timer was set.
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

// background is the context of requests for which no caller waits.
var background = context.Background()
