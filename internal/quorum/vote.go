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

// A vote is one request at one node, under an id of its own. It implements core.Events for the node's engine.
type vote struct {
	e       *entry
	n       *node
	bid     *bid   // that it was made for; nil: to join a lease
	lease   *lease // that it is part of, or is to join; nil: none yet
	req     core.Request
	extra   core.Vote
	cancel  context.CancelFunc // of one that queues; nil: or has its answer
	silence *time.Timer        // ends it if the node does not answer

	state   voteState
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

type voteState int8

const (
	asking  voteState = iota
	queued            // a ticket waits
	granted           // the node has granted the lock
	refused           // somebody else has it
	failed            // the node did not answer, or may not grant
	dropped           // nobody wants it any more
)

// newVote prepares a request for a node.
func (e *entry) newVote(n *node, r *core.Request, wait time.Duration) *vote {
	v := &vote{e: e, n: n, req: *r}
	v.req.Vote, v.req.Events = &v.extra, v
	v.req.Mode, v.req.Wait, v.req.MaxHold, v.req.MaxWaiters = core.Exclusive, wait, 0, 0
	v.req.FailOpen, v.req.Leads, v.req.Once, v.req.Place, v.req.KeepPlace = false, false, false, "", 0
	v.extra.Process, v.extra.Clocked = e.l.process(), v.onClock
	return v
}

// send sends the request. ctx has the values that the user's client may want. l.mu is held.
func (v *vote) send(ctx context.Context) {
	if v.req.Wait == 0 {
		ctx = v.n.limited(ctx)
	} else {
		inner, cancel := context.WithCancel(v.n.engine.Context())
		v.cancel = cancel
		v.silence = time.AfterFunc(v.e.l.cfg.Limit, v.onSilence)
		ctx = &limitedContext{inner, ctx}
	}
	v.e.l.spawn(func() {
		hold, err := v.n.engine.Acquire(ctx, &v.req)
		v.e.l.mu.Lock()
		defer v.e.l.mu.Unlock()
		if v.cancel != nil {
			v.cancel()
			v.silence.Stop()
			v.cancel = nil
		}
		v.onAnswer(hold, err)
	})
}

// onSilence gives up a request that was to queue, and whose node has not answered in time.
func (v *vote) onSilence() {
	v.e.l.mu.Lock()
	defer v.e.l.mu.Unlock()
	switch {
	case v.state == asking:
		v.n.note(core.ErrSilent)
		v.drop()
		v.state, v.err = failed, core.ErrSilent
		v.tell()
	case v.late != nil && v.cancel != nil:
		v.n.note(core.ErrSilent)
		v.cancel()
	}
}

// tell lets whom the request was made for go on.
func (v *vote) tell() {
	switch {
	case v.lease != nil:
		v.lease.onVote(v)
	case v.bid != nil:
		v.bid.step()
	}
}

// onClock notes what the node's clock showed. onAnswer comes after it.
func (v *vote) onClock(sent time.Time, server int64) { v.asked, v.clock = sent, server }

// onAnswer deals with the end of the request.
func (v *vote) onAnswer(hold core.Hold, err error) {
	l, wanted := v.e.l, v.state == asking || v.state == queued // else it was given up before
	if wanted {
		v.n.late = false
	}
	if err == nil {
		v.hold = hold.(core.VoteHold)
		v.knows, v.shows = v.hold.LastToken(), v.hold.Token()
		l.noteToken(v.knows)
		if v.clock != 0 {
			v.n.noteClock(v.asked, v.clock)
		}
	}
	switch {
	case !wanted && err == nil:
		v.letGo()
		return
	case !wanted:
		if !errors.Is(err, context.Canceled) {
			v.n.note(err) // else a node that is dead would be asked each time
		}
		v.endLate(false)
		return
	case err == nil && !v.n.isRaised(v.e.key):
		v.n.note(errNotRaised)
		v.state, v.err = failed, errNotRaised
		v.letGo()
	case err == nil:
		v.n.note(nil)
		v.state = granted
		if v.hold.Expired() {
			v.lose()
		}
	case isBusy(err):
		v.n.note(nil)
		v.state = refused
		if failure, ok := errors.AsType[*core.AcquireError](err); ok {
			v.holders = failure.Holders
		}
	default:
		v.n.note(err)
		v.state, v.err = failed, err
	}
	v.tell()
}

// drop has the node forget the request, whatever became of it. l.mu is held.
func (v *vote) drop() {
	was := v.state
	v.state = dropped
	switch {
	case was == granted:
		v.letGo()
	case v.cancel != nil:
		v.cancel() // the engine has the server forget the id
	}
}

// letGo releases what was granted, in the background. l.mu is held.
func (v *vote) letGo() {
	v.lose()
	v.e.l.spawn(func() {
		_, err := v.hold.Release(v.e.l.cfg.Unlock) // what fails is tried again by the engine
		v.e.l.mu.Lock()
		defer v.e.l.mu.Unlock()
		v.endLate(err == nil)
	})
}

// dropFor is drop at the end of a lease. A release waits a little for a node that has not answered yet, unless it was in vain
// the last time.
func (v *vote) dropFor(r *release) {
	if v.state != asking || v.n.late {
		v.drop()
		return
	}
	v.state, v.late = dropped, r
	r.late++
	r.unsure++
}

// endLate notes that the node is free, or why a release does not wait for it any more.
func (v *vote) endLate(isFree bool) {
	if r := v.late; r != nil {
		v.late = nil
		r.onLate(isFree)
	}
}

// counts reports whether the node is one that the hold has.
func (v *vote) counts() bool {
	return v != nil && v.state == granted && !v.isLost() && !v.hold.Expired()
}

// lose notes that what was granted is over.
func (v *vote) lose() { v.lost.CompareAndSwap(0, int64(clock.Now())) }

// isLost reports whether that was noted. It needs no mutex.
func (v *vote) isLost() bool { return v.lost.Load() != 0 }

// deadline returns until when the node counts. It needs no mutex.
func (v *vote) deadline() clock.Instant {
	d := v.hold.Deadline()
	if lost := clock.Instant(v.lost.Load()); !lost.IsZero() {
		return min(d, lost)
	}
	return d
}

// Contended implements core.Events: the request waits in the node's queue.
func (v *vote) Contended(w core.Wait) { v.onWait(w) }

// Waiting implements core.Events.
func (v *vote) Waiting(w core.Wait) { v.onWait(w) }

func (v *vote) onWait(w core.Wait) {
	v.e.l.mu.Lock()
	defer v.e.l.mu.Unlock()
	v.n.note(nil)
	if v.late != nil && v.cancel != nil {
		v.cancel() // nobody waits for it any more
	}
	if v.state != asking && v.state != queued || v.req.Wait == 0 {
		return
	}
	v.state, v.holders = queued, w.Holders
	if v.bid != nil && v.lease == nil {
		v.e.notify(w)
		v.bid.step()
	}
}

// Stalled implements core.Events: waiters notice that themselves.
func (v *vote) Stalled(core.LocalHold) {}

// ShuttingDown implements core.Events: this is no leader at a node.
func (v *vote) ShuttingDown() {}

// IsForgotten implements core.Events. The engine may hold a mutex.
func (v *vote) IsForgotten() bool {
	h := v.e.holder.Load()
	return h != nil && h.isForgotten()
}

// Forgotten implements core.Events.
func (v *vote) Forgotten(core.LocalHold, time.Time) {
	v.e.l.mu.Lock()
	h := v.e.holder.Load()
	var tell func()
	if h != nil && v.lease != nil && h.lease == v.lease {
		tell = h.onForgotten()
	}
	v.e.l.unlockAndTell(tell)
}

// Renewed implements core.Events.
func (v *vote) Renewed(err error) {
	v.e.l.mu.Lock()
	v.failing = err != nil
	if err == nil {
		v.n.note(nil)
	}
	var tell func()
	if v.lease != nil {
		tell = v.lease.onRenewed(err)
	}
	v.e.l.unlockAndTell(tell)
}

// Lost implements core.Events.
func (v *vote) Lost(cause error) {
	v.e.l.mu.Lock()
	v.lose()
	var tell func()
	switch {
	case v.state == dropped:
	case v.lease != nil:
		tell = v.lease.onLost(cause)
	case v.bid != nil:
		v.state, v.err = failed, cause
		v.bid.step()
	}
	v.e.l.unlockAndTell(tell)
}

// drop has nodes forget all of these.
func drop(votes []*vote) {
	for _, v := range votes {
		if v != nil {
			v.drop()
		}
	}
}

// kthLatest returns the k-th latest of those times.
func kthLatest(times []clock.Instant, k int) clock.Instant {
	slices.SortFunc(times, func(a, v clock.Instant) int { return cmp.Compare(v, a) })
	return times[k-1]
}
