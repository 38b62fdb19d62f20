package quorum

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// abandon ends the bid and all its calls with an error that waiting cannot change.
func (b *bid) abandon(err error) {
	b.end()
	drop(b.votes)
	b.e.failAll(&core.AcquireError{Err: err}, nil)
	b.e.removeIfIdle()
}

// fail continues when the nodes that were asked are not enough. The votes in have were granted.
func (b *bid) fail(have []*vote) {
	e, l := b.e, b.e.l
	first := b.votes[b.first.index]
	if err := cmp.Or(b.finalError(), b.sameServer()); err != nil {
		b.abandon(err)
		return
	}
	if !l.majority(time.Now()) || b.tooManyFailed() {
		if b.in(asking) > 0 {
			return // their answers show whether there are enough
		}
		b.dropAll()
		err := &core.AcquireError{Err: b.unavailable()}
		e.failAll(err, (*localq.Waiter).FailsFast)
		b.pauseOrEnd()
		return
	}
	if b.in(asking) > 0 && b.in(granted, queued, refused) < l.cfg.Quorum && !e.waits() {
		return // their answers show whether the lock is busy or too few nodes are reachable
	}
	b.noteRefusal()
	e.failAll(b.refusal(), func(w *localq.Waiter) bool { return w.OnlyTries() && w.Seq <= b.joined })
	if !e.waits() { // there may be tries that came later
		b.end()
		drop(b.votes)
		e.start()
		return
	}
	e.failAll(b.refusal(), (*localq.Waiter).OnlyTries) // tries that came later are behind a waiter
	e.notify(core.Wait{Holders: e.holders})
	hasFirst := first != nil && first.counts()
	switch {
	case b.phase == inOrder || b.phase == asks && hasFirst && len(have) < l.cfg.Quorum:
		b.acquireInOrder()
	case first != nil && first.isQueueing():
		b.dropOthers()
		b.phase = waits
		b.stopTimer()
		l.prober.keepRunning(l)
	case b.first.unreachable || !slices.ContainsFunc(b.votes, (*vote).isBusy): // nodes have failed, and no other process holds any
		b.delay()
	default:
		b.dropOthers()
		b.phase = waits
		b.queueAt(b.first, e.waiters.Leader())
		l.prober.keepRunning(l)
	}
}

// isQueueing reports whether the request is in the queue, or on its way there.
func (v *vote) isQueueing() bool { return v.state == queued || v.state == asking && v.req.Wait != 0 }

// sameServer returns an error if a node refused the bid because another node has granted it to the same bid.
func (b *bid) sameServer() error {
	for _, v := range b.votes {
		for _, other := range b.votes {
			if v.is(refused) && other != nil && v != other && v.metHoldOf(other.n) {
				return fmt.Errorf("%w: nodes %d and %d are the same server, which has one vote: each node has to be a server of its own",
					core.ErrInvalidOption, other.n.index+1, v.n.index+1)
			}
		}
	}
	return nil
}

// metHoldOf reports whether the request met a hold of this process at another node.
func (v *vote) metHoldOf(other *node) bool {
	return slices.ContainsFunc(v.holders, func(h core.Holder) bool { return h.Client == other.engine.Process() })
}

// refusal returns the error for calls that only try.
func (b *bid) refusal() *core.AcquireError {
	if b.why != nil && !b.isRefused {
		return &core.AcquireError{Err: b.why}
	}
	return localq.Busy(b.e.holders)
}

// noteRefusal records the holders.
func (b *bid) noteRefusal() {
	var seen [][]core.Holder
	for _, v := range b.votes {
		if v.isBusy() {
			b.isRefused = true
			if len(v.holders) > 0 {
				seen = append(seen, v.holders)
			}
		}
	}
	if len(seen) > 0 {
		b.e.holders = mostNamed(seen)
	}
}

// mostNamed returns the holders that the greatest number of nodes name: bids that fail may hold single nodes for a moment. Of several
// such, it returns the latest: a node that has missed a release still names the holder before.
func mostNamed(seen [][]core.Holder) (holders []core.Holder) {
	best := 0
	for _, one := range seen {
		n := 0
		for _, other := range seen {
			if one[0].Owner == other[0].Owner && one[0].Process == other[0].Process && one[0].Token == other[0].Token {
				n++
			}
		}
		if n > best || n == best && isLater(one[0], holders[0]) {
			best, holders = n, one
		}
	}
	return holders
}

// isLater reports whether h is a later holder than other, or the same one after its release.
func isLater(h, other core.Holder) bool {
	return h.Token > other.Token || h.Token == other.Token && h.Lingers && !other.Lingers
}

// isBusy reports whether the node has answered that another process holds the lock. v may be nil.
func (v *vote) isBusy() bool { return v.is(refused, queued) }

// dropOthers gives up all nodes except the first.
func (b *bid) dropOthers() {
	for i := range b.votes {
		if i != b.first.index {
			b.dropAt(i)
		}
	}
}

// dropAt gives up a node. Its refusal of the key stays known.
func (b *bid) dropAt(i int) {
	if v := b.votes[i]; !v.refusesKey() {
		v.drop()
		b.votes[i] = nil
	}
}

// dropAll gives up all nodes.
func (b *bid) dropAll() {
	if time.Since(b.begun) > localq.SlowAnswer {
		for _, v := range b.votes {
			if v.is(asking) {
				v.n.answered = time.Time{} // it has not answered for so long
			}
		}
	}
	for i := range b.votes {
		b.dropAt(i)
	}
}

// onWaits continues after an event while the bid waits in the first node's queue.
func (b *bid) onWaits(open int) {
	first := b.votes[b.first.index]
	switch {
	case first != nil && first.counts():
		b.askRest(first)
	case open == 0: // the node has failed
		b.delay()
	}
}

// inOrderTime is how long a bid keeps the first node while others refuse: their holder may be waiting for the first.
const inOrderTime = 200 * time.Millisecond

// acquireInOrder queues at the nodes that have refused, one after the other in the order of the nodes.
func (b *bid) acquireInOrder() {
	lead := b.e.waiters.Leader()
	if lead == nil {
		b.giveUp()
		return
	}
	b.noteRefusal()
	if b.phase != inOrder {
		b.phase, b.begun = inOrder, time.Now()
		b.after(inOrderTime, b.delay)
	}
	if b.in(asking, queued) > 0 {
		return
	}
	for _, n := range b.order {
		if b.votes[n.index].is(refused) {
			b.request(n, core.Forever, 0, true).send(lead.Ctx)
			return
		}
	}
	b.delay() // the others have failed
}

// delay gives up all nodes, and begins the bid anew after a random time.
func (b *bid) delay() {
	if b.phase == inOrder && len(b.granted()) >= b.e.l.cfg.Quorum {
		b.isPatient = true
		b.step()
		return
	}
	b.dropAll()
	b.pauseOrEnd()
}

// pauseOrEnd begins the bid anew after a random time, if any caller waits for it.
func (b *bid) pauseOrEnd() {
	e, l := b.e, b.e.l
	if e.waiters.Leader() == nil {
		b.giveUp()
		return
	}
	if !l.majority(time.Now()) {
		b.isRefused = false // it is no longer known
	}
	most := min(l.cfg.MinDelay<<min(e.delays+1, 16), l.cfg.MaxDelay)
	e.delays++
	b.phase = pauses
	l.prober.keepRunning(l)
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
