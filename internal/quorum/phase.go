package quorum

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// fail goes on when the nodes that were asked are not enough. It has those that are given.
func (b *bid) fail(have []*vote) {
	e, l := b.e, b.e.l
	first := b.votes[b.first.index]
	if err := cmp.Or(b.finalError(), b.sameServer()); err != nil {
		b.end()
		drop(b.votes)
		e.failAll(&core.AcquireError{Err: err}, nil)
		e.tidy()
		return
	}
	if !l.majority(time.Now()) || b.tooManyFailed() {
		if asked, _ := b.open(); asked > 0 {
			return // their answers say whether there are enough
		}
		b.retreat()
		err := &core.AcquireError{Err: b.unavailable()}
		e.failAll(err, (*localq.Waiter).FailsFast)
		b.pauseOrEnd()
		return
	}
	if asked, _ := b.open(); asked > 0 && b.answered() < l.cfg.Quorum && !e.waits() {
		return // their answers say whether the lock is busy or too few nodes are there
	}
	b.noteRefusal()
	e.failAll(b.refusal(), func(w *localq.Waiter) bool { return w.Tries() && w.Seq <= b.joined })
	if !e.waits() { // there may be tries that have come since
		b.end()
		drop(b.votes)
		e.start()
		return
	}
	e.failAll(b.refusal(), (*localq.Waiter).Tries) // those that have come since are behind one who waits
	e.notify(core.Wait{Holders: e.holders})
	hasFirst := first != nil && first.counts()
	switch {
	case b.phase == climbs || b.phase == asks && hasFirst && len(have) < l.cfg.Quorum:
		b.climb()
	case first != nil && first.stands():
		b.dropOthers()
		b.phase = waits
		b.stopTimer()
		l.prober.want(l)
	case b.first.away || b.allRefusedByNobody():
		b.retreat()
		b.pauseOrEnd()
	default:
		b.dropOthers()
		b.phase = waits
		b.queueAt(b.first, e.waiters.Leader())
		l.prober.want(l)
	}
}

// stands reports whether the request is in the queue, or on its way there.
func (v *vote) stands() bool { return v.state == queued || v.state == asking && v.req.Wait != 0 }

// sameServer returns an error if a node was refused because of what another one of the same bid has granted.
func (b *bid) sameServer() error {
	for _, v := range b.votes {
		for _, other := range b.votes {
			if v != nil && other != nil && v != other && v.state == refused && v.isBehind(other.n) {
				return fmt.Errorf("%w: nodes %d and %d are the same server, which has one vote: each node has to be a server of its own",
					core.ErrInvalidOption, other.n.index+1, v.n.index+1)
			}
		}
	}
	return nil
}

// isBehind reports whether the request met a holder that this process knows by another node.
func (v *vote) isBehind(other *node) bool {
	for _, h := range v.holders {
		if h.Client == other.engine.Process() {
			return true
		}
	}
	return false
}

// refusal returns the error of those who only try.
func (b *bid) refusal() *core.AcquireError {
	if b.why != nil && !b.isRefused {
		return &core.AcquireError{Err: b.why}
	}
	return localq.Busy(b.e.holders)
}

// noteRefusal notes who is in the way.
func (b *bid) noteRefusal() {
	var seen [][]core.Holder
	for _, v := range b.votes {
		if v != nil && (v.state == refused || v.state == queued) {
			b.isRefused = true
			if len(v.holders) > 0 {
				seen = append(seen, v.holders)
			}
		}
	}
	if len(seen) > 0 {
		b.e.holders = seenMost(seen)
	}
}

// seenMost returns the holders that most nodes name. Others may have a node for a moment, in bids that come to nothing.
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
func (b *bid) allRefusedByNobody() bool {
	for _, v := range b.votes {
		if v != nil && (v.state == refused || v.state == queued) {
			return false
		}
	}
	return true
}

// dropOthers gives up all nodes but the first.
func (b *bid) dropOthers() {
	for i, v := range b.votes {
		if v != nil && i != b.first.index {
			v.drop()
			b.votes[i] = nil
		}
	}
}

// retreat gives up all nodes.
func (b *bid) retreat() {
	if time.Since(b.begun) > localq.SlowAnswer {
		for _, v := range b.votes {
			if v != nil && v.state == asking {
				v.n.answered = time.Time{} // it has not, for so long
			}
		}
	}
	drop(b.votes)
	clear(b.votes)
}

// onWaits goes on when something has happened while the bid waits in the first node's queue.
func (b *bid) onWaits(open int) {
	first := b.votes[b.first.index]
	switch {
	case first != nil && first.counts():
		b.askRest(first)
	case open == 0: // the node has failed
		b.retreat()
		b.pauseOrEnd()
	}
}

// climbTime is how long a bid keeps the first node while others are refused: who has them may wait for the first.
const climbTime = 200 * time.Millisecond

// climb queues at the next node of the order that has refused, one after the other.
func (b *bid) climb() {
	l := b.e.l
	lead := b.e.waiters.Leader()
	if lead == nil {
		b.giveUp()
		return
	}
	b.noteRefusal()
	if b.phase != climbs {
		b.phase, b.begun = climbs, time.Now()
		b.after(climbTime, b.delay)
	}
	if asked, inQueue := b.open(); asked+inQueue > 0 {
		return
	}
	for i := range l.nodes {
		n := b.order(i)
		if v := b.votes[n.index]; v != nil && v.state == refused {
			q := b.e.newVote(n, b.terms, core.Forever)
			q.bid, q.extra.Tokens, q.extra.Wants = b, b.e.tokensWanted(), true
			b.votes[n.index] = q
			q.send(lead.Ctx)
			return
		}
	}
	b.delay() // the others have failed
}

// delay gives up all nodes, and begins anew after a random time.
func (b *bid) delay() {
	if b.phase == climbs && len(b.granted()) >= b.e.l.cfg.Quorum {
		b.isPatient = true
		b.step()
		return
	}
	b.retreat()
	b.pauseOrEnd()
}

// pauseOrEnd lets the bid begin anew after a random time, if somebody waits for it.
func (b *bid) pauseOrEnd() {
	e, l := b.e, b.e.l
	if e.waiters.Leader() == nil {
		b.giveUp()
		return
	}
	if !l.majority(time.Now()) {
		b.isRefused = false // it is not known any more
	}
	most := min(l.cfg.MinDelay<<min(e.delays+1, 16), l.cfg.MaxDelay)
	e.delays++
	b.phase = pauses
	l.prober.want(l)
	pause := l.cfg.MinDelay
	if most > pause {
		pause += rand.N(most - pause)
	}
	b.after(pause, func() {
		if !l.majorityMayAnswer() && b.e.delays > 1 {
			b.pauseOrEnd() // the prober finds out when it is worthwhile
			return
		}
		b.begin()
	})
}
