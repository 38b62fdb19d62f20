package quorum

import (
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
	}
	return nil
}
