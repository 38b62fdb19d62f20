package inproc

import (
	"fmt"
	"slices"

	"github.com/lockmw/go/internal/core"
)

// Permits of a semaphore (rule 26 of docs/protocol.md) are granted in strict order: the head of the queue receives its permits as
// soon as its weight is free, according to its own n.

// checkKind returns an error if r requests a permit of a key that is used for locks, or the reverse.
func (e *entry) checkKind(r *core.Request) error {
	first := e.anyRequest()
	if first == nil || (first.Permits > 0) == (r.Permits > 0) {
		return nil
	}
	return &core.AcquireError{Err: fmt.Errorf("%w: the key is in use with mode %v, the request has mode %v", core.ErrWrongType, first.Mode, r.Mode)}
}

// anyRequest returns a request that holds the key or waits for it, or nil if there is none.
func (e *entry) anyRequest() *core.Request {
	switch {
	case len(e.holds) > 0:
		return e.holds[0].Req
	case len(e.writers) > 0:
		return e.writers[0].Req
	}
	return nil
}

// fits reports whether r requests a permit whose weight is free.
func (e *entry) fits(r *core.Request) bool {
	return e.phase == core.Permit && r.Permits > 0 && e.used+r.Weight <= r.Permits
}

// grantPermits grants permits to the head of the queue for as long as its weight is free.
func (l *Locks) grantPermits(e *entry) {
	for len(e.writers) > 0 && e.fits(e.writers[0].Req) {
		l.grantTo(e, e.writers.pop())
	}
}

// takeSlots takes the lowest free slots, as many as the weight of h.
func (e *entry) takeSlots(h *hold) {
	e.used += h.Req.Weight
	for slot := 0; len(h.slots) < h.Req.Weight; slot++ {
		if slot == len(e.slots) {
			e.slots = append(e.slots, false)
		}
		if !e.slots[slot] {
			e.slots[slot] = true
			h.slots = append(h.slots, slot)
		}
	}
}

// freeSlots frees the slots that takeSlots has taken.
func (e *entry) freeSlots(h *hold) {
	e.used -= h.Req.Weight
	for _, slot := range h.slots {
		e.slots[slot] = false
	}
}

// Slots implements core.PermitHold.
func (h *hold) Slots() []int { return slices.Clone(h.slots) }
