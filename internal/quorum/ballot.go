package quorum

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A ballot is one request at one node, under an id of its own. It implements core.Events for the node's engine.
type ballot struct {
	e       *entry
	n       *node
	attempt *attempt // that it was made for; nil: to join a lease
	lease   *lease   // that it is part of, or is to join; nil: none yet
	req     core.Request
	vote    core.Vote
	cancel  context.CancelFunc // of one that queues; nil: or has its answer
	silence *time.Timer        // ends it if the node does not answer

	state   ballotState
	hold    core.VoteHold // granted
	shows   int64         // the token that the node shows as that of the hold
	knows   int64         // the counter of the node, as far as is known
	asked   time.Time     // when the acquire was sent that was answered
	clock   int64         // of the node, meanwhile (µs); 0: it is not known
	err     error         // failed
	holders []core.Holder // in the way
	lost    atomic.Int64  // a clock.Instant: when it was seen to be over; 0: it is not
	failing bool          // its last renewal has failed
	raising bool          // its node is being told of a token
	late    *release      // that waits for the answer; nil: none
}

type ballotState int8

const (
	asking  ballotState = iota
	queued              // a ticket waits
	granted             // the node has granted the lock
	refused             // somebody else has it
	failed              // the node did not answer, or may not grant
	dropped             // nobody wants it any more
)

// newBallot prepares a request for a node.
func (e *entry) newBallot(n *node, r *core.Request, wait time.Duration) *ballot {
	b := &ballot{e: e, n: n, req: *r}
	b.req.Vote, b.req.Events = &b.vote, b
	b.req.Mode, b.req.Wait, b.req.MaxHold, b.req.MaxWaiters = core.Exclusive, wait, 0, 0
	b.req.FailOpen, b.req.Leads, b.req.Once, b.req.Place, b.req.KeepPlace = false, false, false, "", 0
	b.vote.Process, b.vote.Clocked = e.l.process(), b.onClock
	return b
}

// send sends the request. ctx has the values that the user's client may want. l.mu is held.
func (b *ballot) send(ctx context.Context) {
	if b.req.Wait == 0 {
		ctx = b.n.limited(ctx)
	} else {
		inner, cancel := context.WithCancel(b.n.engine.Context())
		b.cancel = cancel
		b.silence = time.AfterFunc(b.e.l.cfg.Limit, b.onSilence)
		ctx = &limitedContext{inner, ctx}
	}
	b.e.l.spawn(func() {
		hold, err := b.n.engine.Acquire(ctx, &b.req)
		b.e.l.mu.Lock()
		defer b.e.l.mu.Unlock()
		if b.cancel != nil {
			b.cancel()
			b.silence.Stop()
			b.cancel = nil
		}
		b.onAnswer(hold, err)
	})
}

// onSilence gives up a request that was to queue, and whose node has not answered in time.
func (b *ballot) onSilence() {
	b.e.l.mu.Lock()
	defer b.e.l.mu.Unlock()
	switch {
	case b.state == asking:
		b.n.note(core.ErrSilent)
		b.drop()
		b.state, b.err = failed, core.ErrSilent
		b.tell()
	case b.late != nil && b.cancel != nil:
		b.n.note(core.ErrSilent)
		b.cancel()
	}
}

// tell lets whom the request was made for go on.
func (b *ballot) tell() {
	switch {
	case b.lease != nil:
		b.lease.onBallot(b)
	case b.attempt != nil:
		b.attempt.step()
	}
}

// onClock notes what the node's clock showed. onAnswer comes after it.
func (b *ballot) onClock(sent time.Time, server int64) { b.asked, b.clock = sent, server }

// onAnswer deals with the end of the request.
func (b *ballot) onAnswer(hold core.Hold, err error) {
	l, wanted := b.e.l, b.state == asking || b.state == queued // else it was given up before
	if wanted {
		b.n.late = false
	}
	if err == nil {
		b.hold = hold.(core.VoteHold)
		b.knows, b.shows = b.hold.LastToken(), b.hold.Token()
		l.noteToken(b.knows)
		if b.clock != 0 {
			b.n.noteClock(b.asked, b.clock)
		}
	}
	switch {
	case !wanted && err == nil:
		b.letGo()
		return
	case !wanted:
		if !errors.Is(err, context.Canceled) {
			b.n.note(err) // else a node that is dead would be asked each time
		}
		b.endLate(false)
		return
	case err == nil && !b.n.isRaised(b.e.key):
		b.n.note(errNotRaised)
		b.state, b.err = failed, errNotRaised
		b.letGo()
	case err == nil:
		b.n.note(nil)
		b.state = granted
		if b.hold.Expired() {
			b.lose()
		}
	case isBusy(err):
		b.n.note(nil)
		b.state = refused
		if failure, ok := errors.AsType[*core.AcquireError](err); ok {
			b.holders = failure.Holders
		}
	default:
		b.n.note(err)
		b.state, b.err = failed, err
	}
	b.tell()
}

// drop has the node forget the request, whatever became of it. l.mu is held.
func (b *ballot) drop() {
	was := b.state
	b.state = dropped
	switch {
	case was == granted:
		b.letGo()
	case b.cancel != nil:
		b.cancel() // the engine has the server forget the id
	}
}

// letGo releases what was granted, in the background. l.mu is held.
func (b *ballot) letGo() {
	b.lose()
	b.e.l.spawn(func() {
		_, err := b.hold.Release(b.e.l.cfg.Unlock) // what fails is tried again by the engine
		b.e.l.mu.Lock()
		defer b.e.l.mu.Unlock()
		b.endLate(err == nil)
	})
}

// dropFor is drop at the end of a lease. A release waits a little for a node that has not answered yet, unless it was in vain
// the last time.
func (b *ballot) dropFor(r *release) {
	if b.state != asking || b.n.late {
		b.drop()
		return
	}
	b.state, b.late = dropped, r
	r.late++
	r.unsure++
}

// endLate notes that the node is free, or why a release does not wait for it any more.
func (b *ballot) endLate(isFree bool) {
	if r := b.late; r != nil {
		b.late = nil
		r.onLate(isFree)
	}
}

// counts reports whether the node is one that the hold has.
func (b *ballot) counts() bool {
	return b != nil && b.state == granted && !b.isLost() && !b.hold.Expired()
}

// lose notes that what was granted is over.
func (b *ballot) lose() { b.lost.CompareAndSwap(0, int64(clock.Now())) }

// isLost reports whether that was noted. It needs no mutex.
func (b *ballot) isLost() bool { return b.lost.Load() != 0 }

// deadline returns until when the node counts. It needs no mutex.
func (b *ballot) deadline() clock.Instant {
	d := b.hold.Deadline()
	if lost := clock.Instant(b.lost.Load()); !lost.IsZero() {
		return min(d, lost)
	}
	return d
}

// Contended implements core.Events: the request waits in the node's queue.
func (b *ballot) Contended(w core.Wait) { b.onWait(w) }

// Waiting implements core.Events.
func (b *ballot) Waiting(w core.Wait) { b.onWait(w) }

func (b *ballot) onWait(w core.Wait) {
	b.e.l.mu.Lock()
	defer b.e.l.mu.Unlock()
	b.n.note(nil)
	if b.late != nil && b.cancel != nil {
		b.cancel() // nobody waits for it any more
	}
	if b.state != asking && b.state != queued || b.req.Wait == 0 {
		return
	}
	b.state, b.holders = queued, w.Holders
	if b.attempt != nil && b.lease == nil {
		b.e.notify(w)
		b.attempt.step()
	}
}

// Stalled implements core.Events: waiters notice that themselves.
func (b *ballot) Stalled(core.LocalHold) {}

// ShuttingDown implements core.Events: this is no leader at a node.
func (b *ballot) ShuttingDown() {}

// IsForgotten implements core.Events. The engine may hold a mutex.
func (b *ballot) IsForgotten() bool {
	h := b.e.holder.Load()
	return h != nil && h.isForgotten()
}

// Forgotten implements core.Events.
func (b *ballot) Forgotten(core.LocalHold, time.Time) {
	b.e.l.mu.Lock()
	h := b.e.holder.Load()
	var tell func()
	if h != nil && b.lease != nil && h.lease == b.lease {
		tell = h.onForgotten()
	}
	b.e.l.mu.Unlock()
	if tell != nil {
		tell()
	}
}

// Renewed implements core.Events.
func (b *ballot) Renewed(err error) {
	b.e.l.mu.Lock()
	b.failing = err != nil
	if err == nil {
		b.n.note(nil)
	}
	var tell func()
	if b.lease != nil {
		tell = b.lease.onRenewed(err)
	}
	b.e.l.mu.Unlock()
	if tell != nil {
		tell()
	}
}

// Lost implements core.Events.
func (b *ballot) Lost(cause error) {
	b.e.l.mu.Lock()
	b.lose()
	var tell func()
	switch {
	case b.state == dropped:
	case b.lease != nil:
		tell = b.lease.onLost(cause)
	case b.attempt != nil:
		b.state, b.err = failed, cause
		b.attempt.step()
	}
	b.e.l.mu.Unlock()
	if tell != nil {
		tell()
	}
}

// drop has nodes forget all of these.
func drop(ballots []*ballot) {
	for _, b := range ballots {
		if b != nil {
			b.drop()
		}
	}
}

// kthLatest returns the k-th latest of those times.
func kthLatest(times []clock.Instant, k int) clock.Instant {
	slices.SortFunc(times, func(a, b clock.Instant) int { return cmp.Compare(b, a) })
	return times[k-1]
}
