package engine

import (
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A permit of a semaphore is a lease of its own, as that of a fair lock is. What differs are the scripts, that several
// leases of a key are there at once, and that each has slots (rule 26 of docs/protocol.md).

// isPermit reports whether its caller wants a permit, or has one.
func (c *cohort) isPermit() bool { return c.kind == permit }

// Slots implements core.PermitHold.
func (h *hold) Slots() []int {
	slots, _ := core.ParseSlots(h.lease.slots) // it was read once before
	return slots
}

// isWhole reports whether a grant says all that its hold has to know: a message leaves out long lists of slots.
func (r *request) isWhole(g script.Grant) bool { return !r.c.isPermit() || g.Slots != "" }

// nextEnd returns in which time the first of those in the way may be gone, so that a poll is worthwhile. For a semaphore that
// is known of all permits, and one ticket of this process polls then.
func (r *request) nextEnd(wait *core.Wait, permits time.Duration) time.Duration {
	if !r.c.isPermit() {
		next := script.PollInterval
		for _, h := range wait.Holders {
			next = min(next, max(h.TTL, 0)+time.Millisecond)
		}
		return next
	}
	all := r.c.rest
	if all.scout == nil {
		all.scout = r
	}
	if all.scout != r {
		return script.PollInterval
	}
	return min(script.PollInterval, max(permits, 0)+time.Millisecond)
}

// addQueued notes that there is one more queued request for a permit, or one less.
func (r *request) addQueued(n int) {
	r.c.known += n
	if !r.c.isPermit() {
		return
	}
	all := r.c.rest
	all.queuedPermits += n
	if n < 0 && all.scout == r {
		all.scout = nil
	}
}
