package quorum_test

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

// heard is what a caller has learnt from core.Events.
type heard struct {
	contended []core.Wait
	renewals  int     // that succeeded
	failures  []error // of renewals
	lost      []error
	lostAt    time.Time
	shutdowns int
}

// heard returns what the caller knows when nothing more happens immediately.
func (c *calling) heard() heard {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.events
	h.contended, h.failures, h.lost = slices.Clone(h.contended), slices.Clone(h.failures), slices.Clone(h.lost)
	return h
}

func (c *calling) note(f func(h *heard)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.events)
}

// Contended implements core.Events.
func (c *calling) Contended(w core.Wait) {
	c.note(func(h *heard) { h.contended = append(h.contended, w) })
}

// Renewed implements core.Events.
func (c *calling) Renewed(err error) {
	c.note(func(h *heard) {
		if err == nil {
			h.renewals++
		} else {
			h.failures = append(h.failures, err)
		}
	})
}

// Lost implements core.Events.
func (c *calling) Lost(cause error) {
	c.note(func(h *heard) { h.lost, h.lostAt = append(h.lost, cause), time.Now() })
}

// ShuttingDown implements core.Events.
func (c *calling) ShuttingDown() { c.note(func(h *heard) { h.shutdowns++ }) }

// Waiting implements core.Events.
func (c *calling) Waiting(core.Wait) {}

// SelfWait implements core.Events.
func (c *calling) SelfWait(core.LocalHold) {}

// IsForgotten implements core.Events.
func (c *calling) IsForgotten() bool { return false }

// Forgotten implements core.Events.
func (c *calling) Forgotten(core.LocalHold, time.Time) {}
