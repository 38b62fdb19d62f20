package engine

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/transport"
)

// A hold is one caller's turn with a lease, or its share in it. It implements core.Hold.
type hold struct {
	lease     *lease
	req       *core.Request
	token     int64
	since     instant
	keepUntil *time.Time   // the key stays taken until then, by the monotonic clock: that must not end early; nil: no longer than the hold
	limit     atomic.Int64 // an instant: the end of the maximum hold or the fixed lease; 0: none
	lost      error
	over      bool
	forgotten bool // nobody can release it any more
	abandoned bool // its caller gave up before it knew of the hold

	list.Links[*hold] // among the holds of the lease
}

// after returns t + d, and never instead of an overflow.
func after(t instant, d time.Duration) instant {
	if d > never-t {
		return never
	}
	return t + d
}

func (h *hold) limitTo(t instant) {
	if limit := instant(h.limit.Load()); limit == 0 || t < limit {
		h.limit.Store(int64(t))
	}
}

// ended returns how the hold has ended, or nil while it goes on. The shard is locked.
func (h *hold) ended() error {
	if !h.over {
		return nil
	}
	return cmp.Or(h.lost, core.ErrNotHeld)
}

// gone is ended, for callers that have not locked the shard.
func (h *hold) gone() error {
	c := h.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return h.ended()
}

// deadline returns when the hold is over unless its lease is renewed.
func (h *hold) deadline() instant {
	expires := instant(h.lease.expires.Load())
	if limit := instant(h.limit.Load()); limit != 0 {
		return min(limit, expires)
	}
	return expires
}

// keepsPlace reports whether its caller keeps a place in the queue, which ends with the hold.
func (h *hold) keepsPlace() bool { return h.req.KeepPlace > 0 && !h.abandoned }

// Token implements core.Hold.
func (h *hold) Token() int64 { return h.token }

// Deadline implements core.Hold.
func (h *hold) Deadline() clock.Instant { return h.lease.c.e.epoch.Add(h.deadline()) }

// Expired implements core.Hold.
func (h *hold) Expired() bool { return h.lease.c.e.now() >= h.deadline() }

// KeepTaken implements core.Hold.
func (h *hold) KeepTaken(d time.Duration) {
	c := h.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	h.keepFor(d)
}

// keepFor keeps the key taken for at least d from now.
func (h *hold) keepFor(d time.Duration) {
	if until := time.Now().Add(d); h.keepUntil == nil || until.After(*h.keepUntil) {
		h.keepUntil = &until
	}
}

// lingers returns for how long from now the key stays taken after a release.
func (h *hold) lingers() time.Duration {
	if h.abandoned || h.keepUntil == nil {
		return 0
	}
	return time.Until(*h.keepUntil)
}

// Extend implements core.Hold.
func (h *hold) Extend(ctx context.Context, duration time.Duration) error {
	l, c := h.lease, h.lease.c
	if err := c.e.cfg.checkTaken("an extension", duration); err != nil {
		return err
	}
	c.shard.mu.Lock()
	err := h.refuseShorter(duration)
	if c.isShared() {
		duration = min(duration, l.duration) // the other readers want no more
	}
	c.shard.mu.Unlock()
	if err != nil {
		return err
	}
	n := l.renewal(duration)
	return c.e.insist(ctx, h.gone, n.Call, func(a *transport.Reply) (again bool, err error) {
		lost, err := h.onExtended(a, duration)
		notifyLost(lost)
		return isPassing(a), err
	})
}

// refuseShorter returns an error if the hold has a longer lease. A lease is never shortened (rule 13 of
// docs/protocol.md): a copy of the command that came late would shorten what was renewed meanwhile.
func (h *hold) refuseShorter(duration time.Duration) error {
	if h.over {
		return nil // which the caller finds out
	}
	has := h.lease.duration
	if h.req.Fixed {
		has = h.since + h.lease.duration - h.lease.c.e.now() // until it is confirmed
		if h.lease.confirmed {
			has = instant(h.lease.expires.Load()) - h.lease.c.e.now()
		}
	}
	return core.RefuseShorter(duration, has)
}

// onExtended deals with the answer to renew.lua.
func (h *hold) onExtended(a *transport.Reply, duration time.Duration) (lost []*hold, err error) {
	l, c := h.lease, h.lease.c
	c.shard.mu.Lock()
	defer c.unlock()
	if err := h.ended(); err != nil {
		return nil, err
	}
	err = l.noteRenewal(a, duration)
	if errors.Is(err, errNotHeldByID) {
		cause := l.gone()
		return l.lose(cause), cause
	}
	if err != nil {
		return nil, transport.Failure(err)
	}
	if !c.isShared() {
		l.duration = duration // the other readers do not want that
	}
	if h.req.Fixed {
		h.limit.Store(0)
		h.limitTo(c.e.instant(a.Sent) + duration - c.e.margin(duration) - core.DriftOf(h.req))
		if h.req.MaxHold > 0 {
			h.limitTo(after(h.since, h.req.MaxHold))
		}
		l.reschedule()
	}
	return nil, nil
}
