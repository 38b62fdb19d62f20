package inproc

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A hold is one acquisition of a key. Its fields other than the first four are guarded by locks.mu.
type hold struct {
	locks *Locks
	req   *core.Request
	token int64
	slots []int // of a permit

	entry     *entry
	index     int    // in the entry's holds; -1: not there any more
	name      string // for detectors of deadlocks; "": none has asked yet
	since     time.Time
	keep      time.Time     // the key stays taken until then; zero: no longer than MinHold says
	lease     time.Duration // how long the hold lasts after a renewal
	most      clock.Instant // the end of the maximum hold; zero: none
	ends      clock.Instant // when a fixed lease ends
	deadline  clock.Instant // zero: none, because the process that renews it is also the one that stores it
	limit     *clock.Timer  // ends the hold at its deadline
	forgotten bool          // nobody can release it any more
	over      bool          // released or lost; after a release it may keep the key taken for a while
	lost      bool
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
		locks: l, req: r, token: e.token, entry: e, index: len(e.holds), since: time.Now(), lease: r.Lease,
	}
	if r.MaxHold > 0 {
		h.most = clock.Now().Add(r.MaxHold)
	}
	e.holds = append(e.holds, h)
	e.takeSlots(h)
	h.setDeadline()
	return h
}

// setDeadline computes when the hold ends by itself, and starts the timer for that.
func (h *hold) setDeadline() {
	if h.req.Fixed {
		h.ends = clock.Now().Add(h.lease)
		h.deadline = h.ends
	}
	if !h.most.IsZero() && (h.deadline.IsZero() || h.most.Before(h.deadline)) {
		h.deadline = h.most
	}
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

// expire ends the hold as lost if its deadline has passed; an Extend may have moved it.
func (h *hold) expire() {
	h.locks.mu.Lock()
	lost := !h.over && h.isPast()
	if lost {
		h.lost = true
		h.entry.endPlace(h.req.Place)
		h.locks.end(h)
	}
	h.locks.mu.Unlock()
	if lost {
		h.req.Events.Lost(h.endCause())
	}
}

// endCause says why the hold is over, which does not change after its end.
func (h *hold) endCause() error {
	if h.forgotten {
		return fmt.Errorf("%w: it was forgotten: nobody could unlock it any more", core.ErrLost)
	}
	return fmt.Errorf("%w: its time ran out", core.ErrLost)
}

func (h *hold) isPast() bool { return !h.deadline.IsZero() && clock.Until(h.deadline) <= 0 }

// end ends h, and grants its key to the next; l.mu is held.
func (l *Locks) end(h *hold) {
	h.over = true
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
	l.settle(e)
}

// describe describes h as a holder. It has no lease that could run out, but for a fixed one.
func (h *hold) describe() core.Holder {
	d := core.Holder{
		Owner: h.req.Owner, Process: "local", TraceParent: h.req.Trace, Token: h.token, Since: h.since,
		Label: h.req.Label, Fixed: h.req.Fixed, MinRest: max(0, time.Until(h.since.Add(h.req.MinHold))), Lingers: h.over,
	}
	if h.req.Permits > 0 {
		d.Weight, d.Slots = h.req.Weight, core.FormatSlots(h.slots)
	}
	switch {
	case h.over:
		d.TTL = d.MinRest
	case h.req.Fixed:
		d.TTL = max(0, clock.Until(h.deadline))
	}
	return d
}

// check returns why h is over, nil if it is not.
func (h *hold) check() error {
	switch {
	case h.lost, !h.over && h.isPast():
		return core.ErrLost
	case h.over:
		return core.ErrNotHeld
	}
	return nil
}

// Token implements core.Hold.
func (h *hold) Token() int64 { return h.token }

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
	return h.lost || !h.over && h.isPast()
}

// Extend implements core.Hold.
func (h *hold) Extend(_ context.Context, lease time.Duration) error {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	if err := h.check(); err != nil {
		return err
	}
	has := h.lease
	if h.req.Fixed {
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
	if until := time.Now().Add(d); until.After(h.keep) {
		h.keep = until
	}
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
	if h.over {
		return waiters, err
	}
	h.lost = err != nil // and its timer is late
	e.endPlace(h.req.Place)
	if !h.lost {
		if rest := h.rest(); rest > 0 {
			h.linger(rest)
			return waiters, nil
		}
	}
	l.end(h)
	return waiters, err
}

// rest returns for how long from now the key stays taken after a release.
func (h *hold) rest() time.Duration {
	return max(time.Until(h.since.Add(h.req.MinHold)), time.Until(h.keep))
}

// linger keeps the key taken for a while though the hold is over.
func (h *hold) linger(rest time.Duration) {
	h.over = true
	h.stopLimit()
	time.AfterFunc(rest, func() {
		h.locks.mu.Lock()
		defer h.locks.mu.Unlock()
		h.locks.end(h)
	})
}
