package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// Release implements core.Hold.
func (h *hold) Release(patience time.Duration) (waiters int, err error) {
	waiters, r, err := h.beginRelease(patience)
	if r != nil {
		err = r.run(patience)
	}
	return waiters, err
}

// beginRelease ends the hold on this side. It returns what the server is still to do; nil: nothing, or it is under way.
func (h *hold) beginRelease(patience time.Duration) (waiters int, r *release, err error) {
	l, c := h.lease, h.lease.c
	c.shard.mu.Lock()
	defer c.unlock()
	now := clock.Now() // read once: within a process locks are passed on so fast that it counts
	waiters = c.waiting()
	err = h.Ended()
	if err == nil && now >= h.deadline() {
		err = h.outOfTime(now)
		l.endHold(h, err)
		if l.isUnused() {
			l.lose(err)
		}
	}
	if err != nil {
		return waiters, nil, err
	}
	if c.isShared() {
		return waiters, h.beginReleaseOfShare(now, patience), nil
	}
	linger := h.Rest()
	if linger <= 0 && (c.passOn(l, now) || l.passAlong(h, now)) {
		h.Over = true
		c.e.holdEnded()
		return waiters, nil, nil
	}
	deadline := h.deadline()
	if linger <= 0 && c.waiters.Len > 0 {
		l.detach(nil)
		c.shard.released.note(c.lockKey(), l.id.Number(), now)
		c.sendRequest(&script.Predecessor{ID: l.id, Lease: l.duration})
		return waiters, nil, nil
	}
	l.detachKeepingID(nil)
	r = l.newRelease(h, now, patience, deadline)
	c.releasing, c.sentAt = r, now
	return waiters, r, nil
}

// beginReleaseOfShare ends a share in a lease. With the last one it returns the release of the lease.
func (h *hold) beginReleaseOfShare(now clock.Instant, patience time.Duration) *release {
	l := h.lease
	deadline := h.deadline()
	first := l.holds.First() == h
	l.endHold(h, nil)
	if !l.isUnused() {
		if first {
			l.reschedule()
		}
		return nil
	}
	l.detachKeepingID(nil)
	return l.newRelease(h, now, patience, deadline)
}

// A release is the way of a lease back to the server: release.lua is sent, and sent again while the server cannot
// answer. Callers of this process that come meanwhile wait for its end. The shard's mutex guards lastErr for others than
// the goroutine of the try.
type release struct {
	l        *lease
	begun    clock.Instant
	place    string        // the name of the hold's kept place; "": none
	served   []string      // ids of its run that may be in the queue
	until    clock.Instant // tries begin before
	deadline clock.Instant // of the hold
	lingers  time.Time     // the key stays taken until then; zero: it does not
	outage   outage
	lastErr  error         // of the last try
	timer    timers.Timer  // the next try
	err      error         // of the release; read it after over
	over     chan struct{} // closed at its end
}

// newRelease prepares a release of the lease, after detachKeepingID.
func (l *lease) newRelease(h *hold, now clock.Instant, patience time.Duration, deadline clock.Instant) *release {
	r := &release{l: l, begun: now, until: now.Add(patience), deadline: deadline, over: make(chan struct{})}
	r.timer.Of(r)
	l.c.e.endings.begin(true)
	if h.keepsPlace() {
		r.place = h.Req.Place
	}
	if l.run != nil {
		r.served = l.run.servedIDs(l.run.gone)
	}
	if h.Rest() > 0 && !l.c.isShared() {
		r.lingers = h.KeptUntil()
	}
	return r
}

// call prepares a run of release.lua that is sent now. The key stays taken for what is left of the minimum hold.
func (r *release) call(now clock.Instant) *transport.Call {
	l, c, e := r.l, r.l.c, r.l.c.e
	n := script.Release{Keys: &c.keys, ID: l.id, Read: l.isRead(), Mark: l.id.Copied(), Place: r.place, Permit: c.isPermit(), Served: r.served}
	if !r.lingers.IsZero() {
		n.Linger = max(time.Until(r.lingers), 0)
	}
	k := n.Call(e.sender.Context(), e.scripts, r.onAnswer)
	k.Limit = max(r.until.Sub(now), time.Millisecond)
	return k
}

// Due sends release.lua again.
func (r *release) Due() { r.send() }

func (r *release) send() { r.l.c.e.sender.Start(r.call(clock.Now())) }

// run sends release.lua, and waits for the end of the release for as long as the caller has patience.
func (r *release) run(patience time.Duration) error {
	r.l.c.e.sendRelease(r.call(r.begun), patience)
	return r.await(patience)
}

// sendRelease sends what ends holds.
func (e *Engine) sendRelease(k *transport.Call, patience time.Duration) {
	if patience < e.cfg.Unlock {
		e.sender.Start(k) // the caller is in a hurry
	} else {
		e.sender.Inline(k, true)
	}
}

// await waits for the end of the release for as long as the caller has patience.
func (r *release) await(patience time.Duration) error {
	c, e := r.l.c, r.l.c.e
	select {
	case <-r.over:
		return r.err
	default:
	}
	now := clock.Now()
	ctx := e.releaseTimeouts.Next(now)
	if left := patience - now.Sub(r.begun); left < e.cfg.Unlock-time.Millisecond {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	select {
	case <-r.over:
		return r.err
	case <-ctx.Done():
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if r.lastErr != nil {
		return transport.Failure(r.lastErr)
	}
	return fmt.Errorf("%w: the release is not confirmed after %v", core.ErrUnavailable, patience)
}

// onAnswer deals with the answer to release.lua.
func (r *release) onAnswer(reply *transport.Reply) {
	if r.waitOut(reply.Err) {
		return
	}
	if r.lastErr != nil && reply.Err != nil && !transport.IsReply(reply.Err) {
		reply.Err = r.lastErr // which says more than that the time is over
	}
	r.err = r.l.onReleased(reply, r.deadline)
	r.l.c.e.endings.done(true) // if it has failed, a cancellation has begun
	close(r.over)
}

// waitOut lets the release wait for the server after a try that failed with err, and reports whether it does.
func (r *release) waitOut(err error) bool {
	c, e := r.l.c, r.l.c.e
	if !transport.IsPassing(err) {
		return false
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	now := clock.Now()
	next := now.Add(r.outage.note(now))
	if next >= r.until {
		return false
	}
	r.lastErr = err
	e.endings.failed(err)
	e.schedule.Set(&r.timer, next, 0)
	return true
}

// onReleased deals with the answer to release.lua.
func (l *lease) onReleased(reply *transport.Reply, deadline clock.Instant) error {
	c, e := l.c, l.c.e
	e.ids.remove(l.id)
	outcome, err := script.ReleaseAnswer(reply)
	err = transport.Failure(err)
	switch {
	case err != nil:
		l.cancel()
	case outcome == script.More:
		e.settle(c.keys, c.isPermit())
	case outcome == script.NotHeld && clock.Now() >= deadline:
		err = fmt.Errorf("%w: the lease ran out before it was released", core.ErrLost)
	case outcome == script.NotHeld && l.id.Releases() == 1: // else an earlier copy may have released it
		err = errDeleted
	}
	if outcome == script.NotHeld && (l.placed != nil || l.run != nil) {
		l.cancel() // which ends its place, and those who were served
	}
	c.shard.mu.Lock()
	c.releasing = nil
	if outcome != script.Unknown { // else its cancel is noted
		now := clock.Now()
		c.shard.released.note(c.lockKey(), l.id.Number(), now)
		e.recovery.ended(reply.Sent)
		e.identity.ended(now)
	}
	c.sendRequest(nil)
	c.unlock()
	return err
}
