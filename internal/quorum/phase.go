package quorum

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// fail goes on when the nodes that were asked are not enough. It has those that are given.
func (a *attempt) fail(have []*ballot) {
	e, l := a.e, a.e.l
	first := a.ballots[a.first.index]
	if err := a.finalError(); err != nil {
		a.end()
		drop(a.ballots)
		e.failAll(&core.AcquireError{Err: err}, nil)
		e.tidy()
		return
	}
	if err := a.sameServer(); err != nil {
		a.end()
		drop(a.ballots)
		e.failAll(&core.AcquireError{Err: err}, nil)
		e.tidy()
		return
	}
	if !l.majority(time.Now()) || a.tooManyFailed() {
		if asked, _ := a.open(); asked > 0 {
			return // their answers say whether there are enough
		}
		a.retreat()
		err := &core.AcquireError{Err: a.unavailable()}
		e.failAll(err, (*localq.Waiter).IsHurried)
		a.pauseOrEnd()
		return
	}
	if asked, _ := a.open(); asked > 0 && a.answered() < l.cfg.Quorum && !e.waits() {
		return // their answers say whether the lock is busy or too few nodes are there
	}
	a.noteRefusal()
	e.failAll(a.refusal(), func(w *localq.Waiter) bool { return w.Tries() && w.Seq <= a.joined })
	if !e.waits() { // there may be tries that have come since
		a.end()
		drop(a.ballots)
		e.start()
		return
	}
	e.failAll(a.refusal(), (*localq.Waiter).Tries) // those that have come since are behind one who waits
	e.notify(core.Wait{Holders: e.holders})
	hasFirst := first != nil && first.counts()
	switch {
	case a.phase == climbs || a.phase == asks && hasFirst && len(have) < l.cfg.Quorum:
		a.climb()
	case first != nil && first.stands():
		a.dropOthers()
		a.phase = waits
		a.stopTimer()
		l.prober.want(l)
	case a.first.away || a.allRefusedByNobody():
		a.retreat()
		a.pauseOrEnd()
	default:
		a.dropOthers()
		a.phase = waits
		a.queueAt(a.first, e.waiters.Leader())
		l.prober.want(l)
	}
}

// stands reports whether the request is in the queue, or on its way there.
func (b *ballot) stands() bool { return b.state == queued || b.state == asking && b.req.Wait != 0 }

// sameServer returns an error if a node was refused because of what another one of the same attempt has granted.
func (a *attempt) sameServer() error {
	for _, b := range a.ballots {
		for _, other := range a.ballots {
			if b != nil && other != nil && b != other && b.state == refused && b.isBehind(other.n) {
				return fmt.Errorf("%w: nodes %d and %d are the same server, which has one vote: each node has to be a server of its own",
					core.ErrInvalidOption, other.n.index+1, b.n.index+1)
			}
		}
	}
	return nil
}

// isBehind reports whether the request met a holder that this process knows by another node.
func (b *ballot) isBehind(other *node) bool {
	for _, h := range b.holders {
		if h.Client == other.engine.Process() {
			return true
		}
	}
	return false
}

// refusal returns the error of those who only try.
func (a *attempt) refusal() *core.AcquireError {
	if a.why != nil && !a.isRefused {
		return &core.AcquireError{Err: a.why}
	}
	return localq.Busy(a.e.holders)
}

// noteRefusal notes who is in the way.
func (a *attempt) noteRefusal() {
	var seen [][]core.Holder
	for _, b := range a.ballots {
		if b != nil && (b.state == refused || b.state == queued) {
			a.isRefused = true
			if len(b.holders) > 0 {
				seen = append(seen, b.holders)
			}
		}
	}
	if len(seen) > 0 {
		a.e.holders = seenMost(seen)
	}
}

// seenMost returns the holders that most nodes name. Others may have a node for a moment, in attempts that come to nothing.
func seenMost(seen [][]core.Holder) (holders []core.Holder) {
	best := 0
	for _, one := range seen {
		n := 0
		for _, other := range seen {
			if one[0].Owner == other[0].Owner && one[0].Process == other[0].Process && one[0].Token == other[0].Token {
				n++
			}
		}
		if n > best {
			best, holders = n, one
		}
	}
	return holders
}

// allRefusedByNobody reports whether it was nodes that failed, and not holders, that were in the way.
func (a *attempt) allRefusedByNobody() bool {
	for _, b := range a.ballots {
		if b != nil && (b.state == refused || b.state == queued) {
			return false
		}
	}
	return true
}

// dropOthers gives up all nodes but the first.
func (a *attempt) dropOthers() {
	for i, b := range a.ballots {
		if b != nil && i != a.first.index {
			b.drop()
			a.ballots[i] = nil
		}
	}
}

// retreat gives up all nodes.
func (a *attempt) retreat() {
	if time.Since(a.begun) > localq.SlowAnswer {
		for _, b := range a.ballots {
			if b != nil && b.state == asking {
				b.n.answered = time.Time{} // it has not, for so long
			}
		}
	}
	drop(a.ballots)
	clear(a.ballots)
}

// onWaits goes on when something has happened while the attempt waits in the first node's queue.
func (a *attempt) onWaits(open int) {
	first := a.ballots[a.first.index]
	switch {
	case first != nil && first.counts():
		a.askRest(first)
	case open == 0: // the node has failed
		a.retreat()
		a.pauseOrEnd()
	}
}

// climbTime is how long an attempt keeps the first node while others are refused: who has them may wait for the first.
const climbTime = 200 * time.Millisecond

// climb queues at the next node of the order that has refused, one after the other.
func (a *attempt) climb() {
	l := a.e.l
	lead := a.e.waiters.Leader()
	if lead == nil {
		a.giveUp()
		return
	}
	a.noteRefusal()
	if a.phase != climbs {
		a.phase, a.begun = climbs, time.Now()
		a.after(climbTime, a.delay)
	}
	if asked, inQueue := a.open(); asked+inQueue > 0 {
		return
	}
	for i := range l.nodes {
		n := a.order(i)
		if b := a.ballots[n.index]; b != nil && b.state == refused {
			q := a.e.newBallot(n, a.terms, core.Forever)
			q.attempt, q.vote.Tokens, q.vote.Wants = a, a.e.tokensWanted(), true
			a.ballots[n.index] = q
			q.send(lead.Ctx)
			return
		}
	}
	a.delay() // the others have failed
}

// delay gives up all nodes, and begins anew after a random time.
func (a *attempt) delay() {
	if a.phase == climbs && len(a.granted()) >= a.e.l.cfg.Quorum {
		a.isPatient = true
		a.step()
		return
	}
	a.retreat()
	a.pauseOrEnd()
}

// pauseOrEnd lets the attempt begin anew after a random time, if somebody waits for it.
func (a *attempt) pauseOrEnd() {
	e, l := a.e, a.e.l
	if e.waiters.Leader() == nil {
		a.giveUp()
		return
	}
	if !l.majority(time.Now()) {
		a.isRefused = false // it is not known any more
	}
	most := min(l.cfg.MinDelay<<min(e.delays+1, 16), l.cfg.MaxDelay)
	e.delays++
	a.phase = pauses
	l.prober.want(l)
	pause := l.cfg.MinDelay
	if most > pause {
		pause += rand.N(most - pause)
	}
	a.after(pause, func() {
		if !l.majorityMayAnswer() && a.e.delays > 1 {
			a.pauseOrEnd() // the prober finds out when it is worthwhile
			return
		}
		a.begin()
	})
}
