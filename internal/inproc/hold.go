package inproc

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// A hold is one acquisition of a key. locks.mu guards all fields except the first three.
type hold struct {
	localq.Hold
	locks *Locks
	slots []int // of a permit

	entry    *entry
	index    int           // in the entry's holds; -1: removed
	name     string        // for deadlock detectors; "": not yet requested
	granted  int64         // when it was granted, for deadlock detectors (µs)
	lease    time.Duration // how long the hold lasts after a renewal
	ends     clock.Instant // when a fixed lease ends
	deadline clock.Instant // zero: none, because the process that would renew the lease also stores it
	limit    *clock.Timer  // ends the hold at its deadline
}

// grant makes r a holder of e; l.mu is held.
func (l *Locks) grant(e *entry, r *core.Request) *hold {
	e.phase = r.Mode
	switch {
	case r.Mode != core.Read:
		l.token++
		e.token = l.token
	case e.token == 0: // no token of a writer is known, but none was greater
		l.token = max(l.token, 1)
		e.token = l.token
	}
	h := &hold{
		Hold: localq.NewHold(r, e.token, clock.Now()), locks: l, entry: e, index: len(e.holds), lease: r.Lease,
	}
	e.holds = append(e.holds, h)
	e.takeSlots(h)
	h.setDeadline()
	return h
}

// setDeadline computes when the hold ends by itself, and starts the timer for that.
func (h *hold) setDeadline() {
	if h.Req.Fixed {
		h.ends = clock.Now().Add(h.lease)
		h.deadline = h.ends
	}
	h.deadline = h.EndsBy(h.deadline)
	h.startLimit()
}

func (h *hold) startLimit() {
	h.stopLimit()
	if !h.deadline.IsZero() {
		h.limit = clock.AfterFunc(clock.Until(h.deadline), h.expire)
	}
}

func (h *hold) stopLimit() {
	if h.limit != nil {
		h.limit.Stop()
	}
}

// expire ends the hold as lost if its deadline has passed. An Extend may have moved it.
func (h *hold) expire() {
	h.locks.mu.Lock()
	lost := h.isPast()
	if lost {
		h.entry.endPlace(h.Req.Place)
		h.locks.end(h, h.ExpiryLoss(clock.Now(), "its time ran out"))
	}
	h.locks.mu.Unlock()
	if lost {
		h.Req.Events.Lost(h.Lost)
	}
}

// isPast reports whether h has not ended although its deadline has passed.
func (h *hold) isPast() bool { return !h.Over && !h.deadline.IsZero() && clock.Until(h.deadline) <= 0 }

// end ends h, and grants its key to the next waiter; l.mu is held. lost is nil if h was released.
func (l *Locks) end(h *hold, lost error) {
	if !h.Over {
		h.End(lost)
	}
	h.stopLimit()
	if h.index < 0 {
		return
	}
	e, last := h.entry, len(h.entry.holds)-1
	e.holds[h.index] = e.holds[last]
	e.holds[h.index].index = h.index
	e.holds[last] = nil
	e.holds = e.holds[:last]
	h.index = -1
	e.freeSlots(h)
	l.grantNext(e)
}

// describe describes h as a holder. Only a fixed lease has a TTL.
func (h *hold) describe() core.Holder {
	now, at := clock.Both()
	d := h.Describe("local", 0, now, at)
	d.Lingers, d.Weight, d.Slots = h.Over, h.Req.Weight, core.FormatSlots(h.slots)
	switch {
	case h.Over:
		d.TTL = d.MinRest
	case h.Req.Fixed:
		d.TTL = max(0, clock.Until(h.deadline))
	}
	return d
}

// check returns why h has ended, or nil if it has not.
func (h *hold) check() error {
	if h.isPast() {
		return core.ErrLost
	}
	return h.Ended()
}

// Deadline implements core.Hold.
func (h *hold) Deadline() clock.Instant {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	return h.deadline
}

// Expired implements core.Hold.
func (h *hold) Expired() bool {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	return h.Lost != nil || h.isPast()
}

// Extend implements core.Hold.
func (h *hold) Extend(_ context.Context, lease time.Duration) error {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	if err := h.check(); err != nil {
		return err
	}
	has := h.lease
	if h.Req.Fixed {
		has = clock.Until(h.ends)
	}
	if err := core.RefuseShorter(lease, has); err != nil {
		return err
	}
	h.lease = lease
	h.setDeadline()
	return nil
}

// KeepTaken implements core.Hold.
func (h *hold) KeepTaken(d time.Duration) {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	h.Keep(d)
}

// Downgrade implements core.Hold.
func (h *hold) Downgrade(context.Context) error {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	if err := h.check(); err != nil {
		return err
	}
	if e := h.entry; e.phase != core.Read {
		e.phase = core.Read
		h.locks.admitReaders(e) // as at a release, although the new phase has one reader already
	}
	return nil
}

// Release implements core.Hold.
func (h *hold) Release(time.Duration) (int, error) {
	l, e := h.locks, h.entry
	l.mu.Lock()
	defer l.mu.Unlock()
	waiters, err := e.waiting(), h.check()
	if h.Over {
		return waiters, err
	}
	e.endPlace(h.Req.Place)
	if rest := h.Linger(); err == nil && rest > 0 {
		h.linger(rest)
		return waiters, nil
	}
	l.end(h, err) // an error means that its timer is late
	return waiters, err
}

// linger keeps the key taken for a while although the hold has ended.
func (h *hold) linger(rest time.Duration) {
	h.End(nil)
	h.stopLimit()
	time.AfterFunc(rest, func() {
		h.locks.mu.Lock()
		defer h.locks.mu.Unlock()
		h.locks.end(h, nil)
	})
}
