package lockmw

import (
	"fmt"

	"github.com/lockmw/go/internal/core"
)

// Lead and Once run in only one of their callers. So their holds must exclude every other hold of the key.

// checkExclusion returns an error if holds of that kind may share a key. It also refuses a semaphore with one permit, because
// another process may use the same key with more permits.
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
	return fmt.Errorf("%w: Lead and Once need a lock with a single holder, and %s may have several", ErrInvalidOption, what)
}

// errNestedLead is for a context that already holds the key: all calls with it would re-enter the same lock.
var errNestedLead = fmt.Errorf("%w: Lead with a context that already holds the key: every caller with it would lead", ErrInvalidOption)

// checkLeader returns an error if h does not exclude all other holds. Lock has checked this, unless a Locker drops the options.
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
