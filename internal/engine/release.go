package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// Release implements core.Hold.
func (h *hold) Release(patience time.Duration) (waiters int, err error) {
	l, c := h.lease, h.lease.c
	c.shard.mu.Lock()
	waiters = c.waiting()
	err = h.ended()
	if err == nil && h.Expired() {
		err = fmt.Errorf("%w: %s", core.ErrLost, h.endReason(c.e.now()))
		l.endHold(h, err)
		if l.isUnused() {
			l.lose(err)
		}
	}
	if err != nil {
		c.unlock()
		return waiters, err
	}
	if c.isShared() {
		return waiters, h.releaseShare(patience)
	}
	linger := h.lingers(c.e.now())
	if linger <= 0 && c.passOn(l) {
		h.over = true
		c.e.holdEnded()
		c.unlock()
		return waiters, nil
	}
	deadline := h.deadline()
	if linger <= 0 && c.waiters.n > 0 {
		l.detach(nil)
		c.shard.released.note(c.id.key, l.id, c.e.now())
		c.sendRequest(&script.Predecessor{ID: l.id, Lease: l.duration})
		c.unlock()
		return waiters, nil
	}
	l.detachKeepingID(nil)
	r := l.newRelease(h, patience, deadline)
	c.releasing, c.sentAt = r, c.e.now()
	c.unlock()
	return waiters, r.run(patience)
}

// releaseShare ends a share in a lease, and releases the lease with the last one. The caller has locked the
// shard, and releaseShare unlocks it.
func (h *hold) releaseShare(patience time.Duration) error {
	l, c := h.lease, h.lease.c
	deadline := h.deadline()
	first := l.holds.First() == h
	l.endHold(h, nil)
	if !l.isUnused() {
		if first {
			l.reschedule()
		}
		c.unlock()
		return nil
	}
	l.detachKeepingID(nil)
	r := l.newRelease(h, patience, deadline)
	c.unlock()
	return r.run(patience)
}

// A release is the way of a lease back to the server: release.lua is sent, and sent again while the server cannot
// answer. Callers of this process that come meanwhile wait for its end. The shard's mutex guards lastErr for others than
// the goroutine of the try.
type release struct {
	l        *lease
	place    string  // the name of the hold's kept place; "": none
	until    instant // tries begin before
	deadline instant // of the hold
	lingers  instant // the key stays taken until then; 0: it does not
	outage   outage
	lastErr  error // of the last try
	timer    timer // the next try
	answer   chan error
}

// newRelease prepares a release of the lease, after detachKeepingID.
func (l *lease) newRelease(h *hold, patience time.Duration, deadline instant) *release {
	now := l.c.e.now()
	r := &release{l: l, until: now + patience, deadline: deadline, answer: make(chan error, 1)}
	r.timer.owner = r
	if h.keepsPlace() {
		r.place = h.req.Place
	}
	if linger := h.lingers(now); linger > 0 && !l.c.isShared() {
		r.lingers = now + linger
	}
	return r
}

// call prepares a run of release.lua. The key stays taken for what is left of the minimum hold.
func (r *release) call() *script.Call {
	l, c, e := r.l, r.l.c, r.l.c.e
	n := script.Release{Keys: &c.keys, ID: l.id, Read: l.isRead(), Mark: l.id.Copied(), Place: r.place}
	if r.lingers != 0 {
		n.Linger = max(r.lingers-e.now(), 0)
	}
	k := n.Call(e.sender.Context(), e.scripts, r.onAnswer)
	k.Limit = max(r.until-e.now(), time.Millisecond)
	return k
}

// send sends release.lua again.
func (r *release) send() { r.l.c.e.sender.Start(r.call()) }

// run sends release.lua, and waits for the end of the release for as long as the caller has patience.
func (r *release) run(patience time.Duration) error {
	c, e := r.l.c, r.l.c.e
	k := r.call()
	begun := time.Now()
	if patience < e.cfg.Unlock {
		e.sender.Start(k) // the caller is in a hurry
	} else if e.sender.Inline(k, true) {
		select {
		case err := <-r.answer:
			return err
		default:
		}
	}
	now := time.Now()
	ctx := e.releaseTimeouts.Next(now)
	if left := patience - now.Sub(begun); left < e.cfg.Unlock-time.Millisecond {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	select {
	case err := <-r.answer:
		return err
	case <-ctx.Done():
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if r.lastErr != nil {
		return script.Failure(r.lastErr)
	}
	return fmt.Errorf("%w: the release is not confirmed after %v", core.ErrUnavailable, patience)
}

// onAnswer deals with the answer to release.lua.
func (r *release) onAnswer(reply *script.Reply) {
	if r.waitOut(reply.Err) {
		return
	}
	if r.lastErr != nil && reply.Err != nil && !script.IsReply(reply.Err) {
		reply.Err = r.lastErr // which says more than that the time is over
	}
	r.answer <- r.l.onReleased(reply, r.deadline)
}

// waitOut lets the release wait for the server after a try that failed with err, and reports whether it does.
func (r *release) waitOut(err error) bool {
	c, e := r.l.c, r.l.c.e
	if !script.IsPassing(err) {
		return false
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	now := e.now()
	next := now + r.outage.note(now)
	if next >= r.until {
		return false
	}
	r.lastErr = err
	e.schedule.set(&r.timer, next, 0)
	return true
}

// onReleased deals with the answer to release.lua.
func (l *lease) onReleased(reply *script.Reply, deadline instant) error {
	c, e := l.c, l.c.e
	e.ids.remove(l.id)
	outcome, err := reply.Released()
	err = script.Failure(err)
	switch {
	case err != nil:
		l.cancel()
	case outcome == script.More:
		e.settle(c.keys)
	case outcome == script.NotHeld && e.now() >= deadline:
		err = fmt.Errorf("%w: the lease ran out before it was released", core.ErrLost)
	case outcome == script.NotHeld && l.id.Releases() == 1: // else an earlier copy may have released it
		err = errDeleted
	}
	if outcome == script.NotHeld && l.placed != nil {
		l.cancel() // which ends its place
	}
	c.shard.mu.Lock()
	c.releasing = nil
	if err == nil {
		c.shard.released.note(c.id.key, l.id, e.now())
	}
	c.sendRequest(nil)
	c.unlock()
	return err
}
