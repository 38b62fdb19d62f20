package lockmw

import (
	"fmt"

	"github.com/lockmw/go/internal/core"
)

// Lead and Once run in one of all their callers. So their holds exclude every other hold of the key.

// needsExclusion reports whether the call is one of Lead or Once.
func (p *Policy) needsExclusion() bool { return p.leads || p.once() }

// checkExclusion returns an error if holds of that kind may share a key. A semaphore with one permit is no exception: each
// process says how many permits there are, and they may differ.
func checkExclusion(mode core.Mode, permits int) error {
	what := ""
	switch {
	case permits > 0:
		what = "a semaphore"
	case mode == core.Read:
		what = "a lock for reading"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s: callers of Lead and Once exclude one another, and its holds share the key", ErrInvalidOption, what)
}

// errNestedLead is for a context that already holds the key: all calls with it would re-enter the same lock.
var errNestedLead = fmt.Errorf("%w: Lead with a context that holds the key: each caller with it would lead", ErrInvalidOption)

// checkLeader returns why h does not exclude all others. A Locker that passed no options on may have returned such a hold.
func (h *Hold) checkLeader() error {
	for outer := h.outer; outer != nil; outer = outer.outer {
		if outer.lock == h.lock {
			return errNestedLead
		}
	}
	if h.lock.backend == nil {
		return fmt.Errorf("%w, and the Locker failed open", ErrUnavailable)
	}
	return checkExclusion(h.lock.req.Mode, h.lock.req.Permits)
}
