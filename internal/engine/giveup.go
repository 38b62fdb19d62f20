package engine

import (
	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/transport"
)

var _ localq.Line = (*cohort)(nil)

// Lock implements localq.Line.
func (c *cohort) Lock() { c.shard.mu.Lock() }

// Unlock implements localq.Line.
func (c *cohort) Unlock() { c.unlock() }

// Busy implements localq.Line.
func (c *cohort) Busy() *core.AcquireError {
	holders, _ := c.knownHolders(readClock())
	return localq.Busy(holders)
}

// InVain implements localq.Line: the lock is busy, or the server did not answer.
func (c *cohort) InVain() *core.AcquireError {
	holders, held := c.knownHolders(readClock())
	err := localq.Busy(holders)
	switch r := c.request; {
	case r != nil && r.lastErr != nil:
		err.Err = transport.Failure(r.lastErr)
	case c.releasing != nil && c.releasing.lastErr != nil:
		err.Err = transport.Failure(c.releasing.lastErr)
	case !held && clock.Since(c.sentAt) > localq.SlowAnswer:
		err.Err = localq.ErrSilent
	}
	return err
}

// Leave implements localq.Line.
func (c *cohort) Leave(w *localq.Waiter) {
	c.removeWaiter(w)
	c.dropUnwanted()
}

// dropUnwanted cancels what nobody waits for any more.
func (c *cohort) dropUnwanted() {
	c.cancelIfUnwanted()
	c.cancelLeaseIfUnused()
	c.sendRequest(nil)
}

// GiveBack implements localq.Line.
func (c *cohort) GiveBack(h core.Hold) {
	c.Lock()
	h.(*hold).Abandoned = true
	c.Unlock()
	_, _ = h.Release(localq.GiveUpPatience) // a release that fails is tried again in the background
}
