package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/transport"
)

// A hold is one caller's turn with a lease, or its share in it. It implements core.Hold.
type hold struct {
	localq.Hold
	lease *lease
	limit atomic.Int64 // a clock.Instant: the end of the maximum hold or the fixed lease; 0: none

	list.Links[*hold] // among the holds of the lease
}

// limitTo has the hold end at t, if it does not end earlier.
func (h *hold) limitTo(t clock.Instant) {
	if limit := clock.Instant(h.limit.Load()); limit == 0 || t < limit {
		h.limit.Store(int64(t))
	}
}

// gone is Ended, for callers that have not locked the shard.
func (h *hold) gone() error {
	c := h.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return h.Ended()
}

// deadline returns when the hold is over unless its lease is renewed.
func (h *hold) deadline() clock.Instant {
	expires := h.lease.expiry()
	if limit := clock.Instant(h.limit.Load()); limit != 0 {
		return min(limit, expires)
	}
	return expires
}

// keepsPlace reports whether its caller keeps a place in the queue, which ends with the hold.
func (h *hold) keepsPlace() bool { return h.Req.KeepPlace > 0 && !h.Abandoned }

// Deadline implements core.Hold.
func (h *hold) Deadline() clock.Instant { return h.deadline() }

// Expired implements core.Hold.
func (h *hold) Expired() bool { return clock.Now() >= h.deadline() }

// KeepTaken implements core.Hold.
func (h *hold) KeepTaken(d time.Duration) {
	c := h.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	h.Keep(d)
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
	if h.Over {
		return nil // which the caller finds out
	}
	has := h.lease.duration
	if h.Req.Fixed {
		has = clock.Until(h.Since.Add(h.lease.duration)) // until it is confirmed
		if h.lease.confirmed {
			has = clock.Until(h.lease.expiry())
		}
	}
	return core.RefuseShorter(duration, has)
}

// onExtended deals with the answer to renew.lua.
func (h *hold) onExtended(a *transport.Reply, duration time.Duration) (lost []*hold, err error) {
	l, c := h.lease, h.lease.c
	c.shard.mu.Lock()
	defer c.unlock()
	if err := h.Ended(); err != nil {
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
	if h.Req.Fixed {
		h.limit.Store(0)
		h.limitTo(a.Sent.Add(duration - c.e.margin(duration) - core.DriftOf(h.Req)))
		if h.Req.MaxHold > 0 {
			h.limitTo(h.MaxEnd())
		}
		l.reschedule()
	}
	return nil, nil
}
