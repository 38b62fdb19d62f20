package quorum

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
)

var _ core.LimitedLocks = (*Locks)(nil)

// CheckTimes implements core.LimitedLocks. Each node grants a hold of its own, so that what one of them refuses cannot be had.
func (l *Locks) CheckTimes(lease, minHold time.Duration) error {
	for _, n := range l.nodes {
		if err := n.engine.CheckTimes(lease, minHold); err != nil {
			return err
		}
		if lease > 0 && l.cfg.Drift >= lease-n.engine.Margin(lease) {
			return fmt.Errorf("%w: a lease of %v: WithDrift(%v) leaves nothing of it", core.ErrInvalidOption, lease, l.cfg.Drift)
		}
	}
	return nil
}
