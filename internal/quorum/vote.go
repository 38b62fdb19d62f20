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
	"github.com/lockmw/go/internal/transport"
)

// A vote is one request at one node, with its own id. It implements core.Events for the node's engine.
type vote struct {
	e           *entry
	n           *node
	bid         *bid   // the bid for which it was made; nil: a request to join a lease
	lease       *lease // the lease that it is part of, or is to join; nil: none yet
	req         core.Request
	extra       core.Vote
	cancel      context.CancelFunc // ends a request that may queue; nil: it does not queue, or has its answer
	answerTimer *time.Timer        // ends the request if the node does not answer

	state   voteState
	hold    core.VoteHold // granted
	shows   int64         // token that the node shows for the hold
	counter int64         // last known counter of the node
	asked   time.Time     // when the acquire was sent that was answered
	clock   int64         // the node's time at its answer (µs); 0: unknown
	err     error         // why the request failed
	holders []core.Holder // the holders at the node
	lost    atomic.Int64  // a clock.Instant: when the loss was noticed; 0: it is not lost
	failing bool          // its last renewal has failed
	raising bool          // a raise of its node is in progress
	late    *release      // a release that waits for the answer; nil: none
}

type voteState int8

const (
	asking  voteState = iota
	queued            // a ticket waits
	granted           // the node has granted the lock
	refused           // another process holds the lock
	failed            // the node did not answer, or may not grant
	dropped           // not wanted any more
)

// is reports whether the request has one of these states. v may be nil.
func (v *vote) is(states ...voteState) bool { return v != nil && slices.Contains(states, v.state) }

// refusesKey reports whether the node refused the key whatever its state.
func (v *vote) refusesKey() bool { return v.is(failed) && transport.IsAboutKey(v.err) }

// newVote prepares a request for a node.
func (e *entry) newVote(n *node, r *core.Request, wait time.Duration) *vote {
	v := &vote{e: e, n: n, req: *r}
	v.req.Vote, v.req.Events = &v.extra, v
	v.req.Mode, v.req.Wait, v.req.MaxHold, v.req.MaxWaiters = core.Exclusive, wait, 0, 0
	v.req.FailOpen, v.req.Leads, v.req.Once, v.req.Place, v.req.KeepPlace = false, false, false, "", 0
	v.extra.Process, v.extra.OnClock = e.l.process(), v.onClock
	return v
}

// send sends the request. ctx has the values for hooks of the user's redis client. l.mu is held.
func (v *vote) send(ctx context.Context) {
	if v.req.Wait == 0 {
		ctx = v.n.limited(ctx)
	} else {
		inner, cancel := context.WithCancel(v.n.engine.Context())
		v.cancel = cancel
		v.answerTimer = time.AfterFunc(v.e.l.cfg.NodeTimeout, v.onNoAnswer)
		ctx = &transport.LimitedContext{Context: inner, Values: ctx}
	}
	v.e.l.spawn(func() {
		hold, err := v.n.engine.Acquire(ctx, &v.req)
		v.e.l.mu.Lock()
		defer v.e.l.mu.Unlock()
		if v.cancel != nil {
			v.cancel()
			v.answerTimer.Stop()
			v.cancel = nil
		}
		v.onAnswer(hold, err)
	})
}

// onNoAnswer gives up a request that may queue, and whose node has not answered in time.
func (v *vote) onNoAnswer() {
	v.e.l.mu.Lock()
	defer v.e.l.mu.Unlock()
	switch {
	case v.state == asking:
		v.n.note(core.ErrNoAnswer)
		v.drop()
		v.state, v.err = failed, core.ErrNoAnswer
		v.proceed()
	case v.late != nil && v.cancel != nil:
		v.n.note(core.ErrNoAnswer)
		v.cancel()
	}
}

// proceed continues the bid or the lease for which the request was made.
func (v *vote) proceed() {
	switch {
	case v.lease != nil:
		v.lease.onVote(v)
	case v.bid != nil:
		v.bid.step()
	}
}

// onClock records the node's time. It is called before onAnswer.
func (v *vote) onClock(sent time.Time, server int64) { v.asked, v.clock = sent, server }

// onAnswer handles the end of the request.
func (v *vote) onAnswer(hold core.Hold, err error) {
	l, wanted := v.e.l, v.state == asking || v.state == queued // otherwise it was given up before
	if wanted {
		v.n.late = false
	}
	if err == nil {
		v.hold = hold.(core.VoteHold)
		v.counter, v.shows = v.hold.LastToken(), v.hold.Token()
		l.noteToken(v.counter)
		if v.clock != 0 {
			v.n.noteClock(v.asked, v.clock)
		}
	}
	switch {
	case !wanted && err == nil:
		v.giveBack()
		return
	case !wanted:
		if !errors.Is(err, context.Canceled) {
			v.n.note(err) // otherwise a dead node would be asked each time
		}
		v.endLate(false)
		return
	case err == nil && !v.n.isVerified(v.e.key):
		v.n.note(errNotVerified)
		v.state, v.err = failed, errNotVerified
		v.giveBack()
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
	v.proceed()
}

// drop gives up the request, whatever its state. l.mu is held. v may be nil.
func (v *vote) drop() {
	if v == nil {
		return
	}
	was := v.state
	v.state = dropped
	switch {
	case was == granted:
		v.giveBack()
	case v.cancel != nil:
		v.cancel() // the engine cancels the id
	}
}

// giveBack releases a grant in the background. l.mu is held.
func (v *vote) giveBack() {
	v.lose()
	v.e.l.spawn(func() {
		_, err := v.hold.Release(v.e.l.cfg.UnlockTimeout) // the engine retries a failed release
		v.e.l.mu.Lock()
		defer v.e.l.mu.Unlock()
		v.endLate(err == nil)
	})
}

// dropFor is drop at the end of a lease. A release waits a little for a node that has not answered yet, unless the last such
// wait was in vain.
func (v *vote) dropFor(r *release) {
	if v.state != asking || v.n.late {
		v.drop()
		return
	}
	v.state, v.late = dropped, r
	r.late++
	r.unsure++
}

// endLate reports to a release that the node is free, or that waiting for it has ended.
func (v *vote) endLate(isFree bool) {
	if r := v.late; r != nil {
		v.late = nil
		r.onLate(isFree)
	}
}

// counts reports whether the node counts for the hold.
func (v *vote) counts() bool {
	return v != nil && v.state == granted && !v.isLost() && !v.hold.Expired()
}

// lose records that the grant has ended.
func (v *vote) lose() { v.lost.CompareAndSwap(0, int64(clock.Now())) }

// isLost reports whether that was recorded. It needs no mutex.
func (v *vote) isLost() bool { return v.lost.Load() != 0 }

// deadline returns the instant until which the node counts. It needs no mutex.
func (v *vote) deadline() clock.Instant {
	d := v.hold.Deadline()
	if lost := clock.Instant(v.lost.Load()); !lost.IsZero() {
		return min(d, lost)
	}
	return d
}

// Waiting implements core.Events.
func (v *vote) Waiting(w core.Wait) { v.Contended(w) }

// Contended implements core.Events: the request waits in the node's queue.
func (v *vote) Contended(w core.Wait) {
	v.e.l.mu.Lock()
	defer v.e.l.mu.Unlock()
	v.n.note(nil)
	if v.late != nil && v.cancel != nil {
		v.cancel() // no caller waits for it any more
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

// SelfWait implements core.Events. It does nothing: waiters detect self-waits on their own.
func (v *vote) SelfWait(core.LocalHold) {}

// ShuttingDown implements core.Events. It does nothing: a vote is not a leader.
func (v *vote) ShuttingDown() {}

// IsForgotten implements core.Events. The engine may hold a mutex.
func (v *vote) IsForgotten() bool {
	h := v.e.holder.Load()
	return h != nil && h.Req.Events.IsForgotten()
}

// Forgotten implements core.Events. Each node of the lease reports the hold, but its caller is notified once.
func (v *vote) Forgotten(core.LocalHold, time.Time) {
	v.e.l.mu.Lock()
	var notify func()
	if h := v.e.holder.Load(); h != nil && h.lease == v.lease && !h.Over && !h.Forgotten {
		h.Forgotten = true
		ends := h.Deadline().Time()
		notify = func() { h.Req.Events.Forgotten(h.Local(), ends) }
	}
	v.e.l.unlockAndNotify(notify)
}

// Renewed implements core.Events.
func (v *vote) Renewed(err error) {
	v.e.l.mu.Lock()
	v.failing = err != nil
	if err == nil {
		v.n.note(nil)
	}
	var notify func()
	if v.lease != nil {
		notify = v.lease.onRenewed(err)
	}
	v.e.l.unlockAndNotify(notify)
}

// Lost implements core.Events.
func (v *vote) Lost(cause error) {
	v.e.l.mu.Lock()
	v.lose()
	var notify func()
	switch {
	case v.state == dropped:
	case v.lease != nil:
		notify = v.lease.onLost(cause)
	case v.bid != nil:
		v.state, v.err = failed, cause
		v.bid.step()
	}
	v.e.l.unlockAndNotify(notify)
}

// drop gives up all these requests.
func drop(votes []*vote) {
	for _, v := range votes {
		v.drop()
	}
}

// kthDeadline returns the instant until which k of these nodes count. It needs no mutex.
func kthDeadline(votes []*vote, k int) clock.Instant {
	var room [16]clock.Instant
	times := room[:0]
	for _, v := range votes {
		times = append(times, v.deadline())
	}
	slices.SortFunc(times, func(a, v clock.Instant) int { return cmp.Compare(v, a) })
	return times[k-1]
}
