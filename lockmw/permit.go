package lockmw

import (
	"fmt"

	"github.com/lockmw/go/internal/core"
)

// What package semaphore adds to locks (rule 26 of docs/protocol.md).

// Slots returns which of a semaphore's permits the hold has, in ascending order: numbers from 0 to n - 1, as many as its
// weight. They are the hold's own until it ends, and need not be next to each other. Holds that re-entered share them. It
// returns nil if the lock is not a semaphore, or failed open.
func (h *Hold) Slots() []int {
	if p, ok := h.held().backend.(core.PermitHold); ok {
		return p.Slots()
	}
	return nil
}

// Slot returns the first of Slots, -1 if there is none. It numbers those who hold at the same time: for a port, a shard or a
// directory of each.
func (h *Hold) Slot() int {
	if slots := h.Slots(); len(slots) > 0 {
		return slots[0]
	}
	return -1
}

// weight is how many permits are taken.
func (p *Policy) weight() int { return max(p.Weight, 1) }

// checkWeight returns an error if l has not so many permits.
func (l *kindLocker) checkWeight(p *Policy) error {
	switch {
	case p.Weight > 0 && l.kind.Permits == 0:
		return fmt.Errorf("%w: WithWeight needs a semaphore: semaphore.New", ErrInvalidOption)
	case p.Weight > l.kind.Permits:
		return fmt.Errorf("%w: WithWeight(%d) of a semaphore with %d permits", ErrInvalidOption, p.Weight, l.kind.Permits)
	}
	return nil
}

// otherKind returns an error if a call of a kind with the policy cannot be nested in the hold: locks and permits exclude each
// other, and a permit is not made heavier.
func (l *heldLock) otherKind(kind core.Kind, p *Policy) error {
	switch {
	case kind.Permits > 0 && l.req.Permits == 0:
		return fmt.Errorf("%w: the context holds the key by a lock, and this is a semaphore", ErrWrongType)
	case kind.Permits == 0 && l.req.Permits > 0:
		return fmt.Errorf("%w: the context holds a permit of the key, and this is a lock", ErrWrongType)
	case kind.Permits > 0 && p.weight() > l.req.Weight:
		return fmt.Errorf("%w: the context has permits of weight %d, and this call wants %d", ErrUpgrade, l.req.Weight, p.weight())
	}
	return nil
}
