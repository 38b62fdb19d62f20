package engine

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// giveUp ends the wait of w, because its time is over or its context ended. A hold that w was given in this
// instant is released.
func (c *cohort) giveUp(w *waiter, ended error) error {
	c.shard.mu.Lock()
	if w.hold != nil {
		h := w.hold
		h.abandoned = true
		c.shard.mu.Unlock()
		_, _ = h.Release(giveUpPatience) // a release that fails is tried again in the background
		if ended == nil {
			return busy(nil)
		}
		return &core.AcquireError{Err: fmt.Errorf("%w: %w", core.ErrBusy, ended)}
	}
	if w.err != nil {
		c.shard.mu.Unlock()
		return w.err
	}
	err := c.waitError(ended)
	c.leave(w)
	c.unlock()
	return err
}

// leave ends the wait of w. What nobody waits for any more is cancelled.
func (c *cohort) leave(w *waiter) {
	c.removeWaiter(w)
	c.dropUnwanted()
}

// dropUnwanted cancels what nobody waits for any more.
func (c *cohort) dropUnwanted() {
	c.cancelIfUnwanted()
	c.cancelLeaseIfUnused()
	c.sendRequest(nil)
}

// giveUpPatience is how long a cancelled call may take to release a hold that it was given meanwhile.
const giveUpPatience = 30 * time.Millisecond

// slowAnswer is after how long without an answer the server counts as unavailable. A caller whose time is
// over sooner gets ErrBusy.
const slowAnswer = 50 * time.Millisecond

// waitError returns the error of a caller whose wait ended: the lock is busy, or the server did not answer.
// It wraps ended, the error of the caller's context, if that is not nil.
func (c *cohort) waitError(ended error) error {
	holders, held := c.knownHolders(c.e.moment())
	err := busy(holders)
	switch r := c.request; {
	case r != nil && r.lastErr != nil:
		err.Err = transport.Failure(r.lastErr)
	case c.releasing != nil && c.releasing.lastErr != nil:
		err.Err = transport.Failure(c.releasing.lastErr)
	case !held && c.e.now()-c.sentAt > slowAnswer:
		err.Err = errSilent
	}
	if ended != nil {
		err.Err = fmt.Errorf("%w: %w", err.Err, ended)
	}
	return err
}
