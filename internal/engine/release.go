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
		c.sendRequest(&script.Predecessor{ID: l.id, Lease: l.duration})
		c.unlock()
		return waiters, nil
	}
	l.detachKeepingID(nil)
	c.releasing, c.sentAt = true, c.e.now()
	c.unlock()
	return waiters, l.release(h, patience, max(linger, 0), deadline)
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
	c.unlock()
	return l.release(h, patience, 0, deadline)
}

// release runs release.lua, after detachKeepingID. Callers of this process that come meanwhile wait for its
// answer.
func (l *lease) release(h *hold, patience, linger time.Duration, deadline instant) error {
	c, e := l.c, l.c.e
	answers := make(chan error, 1)
	r := script.Release{Keys: &c.keys, ID: l.id, Read: l.isRead(), Linger: linger, Mark: l.id.Copied()}
	if h.keepsPlace() {
		r.Place = h.req.Place
	}
	k := r.Call(e.sender.Context(), e.scripts, func(a *script.Reply) { answers <- l.onReleased(a, deadline) })
	k.Limit = patience
	begun := time.Now()
	if patience < e.cfg.Unlock {
		e.sender.Start(k) // the caller is in a hurry
	} else if e.sender.Inline(k, true) {
		return <-answers
	}
	now := time.Now()
	ctx := e.releaseTimeouts.Next(now)
	if left := patience - now.Sub(begun); left < e.cfg.Unlock-time.Millisecond {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	select {
	case err := <-answers:
		return err
	case <-ctx.Done():
	}
	return fmt.Errorf("%w: the release is not confirmed after %v", core.ErrUnavailable, patience)
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
	c.releasing = false
	c.sendRequest(nil)
	c.unlock()
	return err
}
