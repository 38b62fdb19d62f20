package lockmw

import (
	"fmt"

	"github.com/lockmw/go/internal/core"
)

// Permits of package semaphore (rule 26 of docs/protocol.md).

// Slots returns the numbers of the semaphore's permits that the hold has: as many as its weight, from 0 to n - 1, in ascending
// order, not necessarily adjacent. No other holder has them until the hold ends; nested holds share them. Slots returns nil if
// the lock is not a semaphore, or failed open.
func (h *Hold) Slots() []int {
	if p, ok := h.held().backend.(core.PermitHold); ok {
		return p.Slots()
	}
	return nil
}

// Slot returns the first of Slots, or -1 if there is none. Holds at the same time have different slots, so a slot can choose a
// port, a shard or a directory.
func (h *Hold) Slot() int {
	if slots := h.Slots(); len(slots) > 0 {
		return slots[0]
	}
	return -1
}

// weight returns how many permits a call takes.
func (p *Policy) weight() int { return max(p.Weight, 1) }

// checkWeight returns an error if l cannot grant the weight of p.
func (l *kindLocker) checkWeight(p *Policy) error {
	switch {
	case p.Weight > 0 && l.kind.Permits == 0:
		return fmt.Errorf("%w: WithWeight needs a semaphore: semaphore.New", ErrInvalidOption)
	case p.Weight > l.kind.Permits:
		return fmt.Errorf("%w: WithWeight(%d) of a semaphore with %d permits", ErrInvalidOption, p.Weight, l.kind.Permits)
	}
	return nil
}

// otherKind returns an error if a call of that kind cannot be nested in the hold: a lock and permits cannot share a key, and the
// weight of a hold cannot grow.
func (l *heldLock) otherKind(kind core.Kind, p *Policy) error {
	switch {
	case kind.Permits > 0 && l.req.Permits == 0:
		return fmt.Errorf("%w: the context holds the key as a lock, and this call is for a semaphore", ErrWrongType)
	case kind.Permits == 0 && l.req.Permits > 0:
		return fmt.Errorf("%w: the context holds a permit of the key, and this call is for a lock", ErrWrongType)
	case kind.Permits > 0 && p.weight() > l.req.Weight:
		return fmt.Errorf("%w: the context holds permits of weight %d, and this call needs %d", ErrUpgrade, l.req.Weight, p.weight())
	}
	return nil
}
