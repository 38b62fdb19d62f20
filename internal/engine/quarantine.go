package engine

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
)

// What a server may have lost has to be over when its quarantine ends (rule 22 of docs/protocol.md). So no lease and no
// minimum hold lasts longer than that, and no tick does, from the first instant at which it may have been run to the last one
// at which it may begin.

var _ core.LimitedLocks = (*Engine)(nil)

// checkTaken returns an error if a key may not be kept taken by a lease, or something else, of that length.
func (c *Config) checkTaken(by string, d time.Duration) error {
	if longest := c.longest(); longest > 0 && d > longest {
		return fmt.Errorf("%w: %s of %v: with WithQuarantine(%v) a key may be kept taken for %v at most", core.ErrInvalidOption, by, d, c.Quarantine, longest)
	}
	return nil
}

// longest is how long a key may be kept taken; 0: there is no limit.
func (c *Config) longest() time.Duration {
	if c.Quarantine == 0 {
		return 0
	}
	return c.Quarantine - c.margin(c.Quarantine)
}

// CheckTimes implements core.LimitedLocks.
func (e *Engine) CheckTimes(lease, minHold time.Duration) error {
	if err := e.cfg.checkTaken("a lease", lease); err != nil {
		return err
	}
	return e.cfg.checkTaken("a minimum hold", minHold)
}

// checkRequest returns an error if the quarantine is too short for what the request wants.
func (e *Engine) checkRequest(r *core.Request) error {
	if longest := e.cfg.longest(); longest > 0 && r.Within > longest/2 {
		return fmt.Errorf("%w: a tick within %v: with WithQuarantine(%v) a tick may be within %v at most",
			core.ErrInvalidOption, r.Within, e.cfg.Quarantine, longest/2)
	}
	return e.CheckTimes(r.Lease, r.MinHold)
}
