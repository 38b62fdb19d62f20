package engine

import (
	"context"
	"fmt"

	"github.com/lockmw/go/internal/core"
)

// Shutdown refuses new calls, ends waits, and returns when no hold is left or ctx ends.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.closing.Store(true)
	e.eachCohort(func(c *cohort) { c.failAll(&core.AcquireError{Err: core.ErrClosed}) })
	e.draining.Store(true) // from here on the number of holds only falls
	e.endLeaders()
	e.drain()
	select {
	case <-e.drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("holds that have not ended: %d: %w", e.active.Load(), ctx.Err())
	}
}

// endLeaders asks for the end of all holds that would go on for ever.
func (e *Engine) endLeaders() {
	var leaders []*hold
	for _, l := range e.ids.leases() {
		l.c.shard.mu.Lock()
		for h := range l.holds.All() {
			if h.Req.Leads {
				leaders = append(leaders, h)
			}
		}
		l.c.shard.mu.Unlock()
	}
	for _, h := range leaders {
		h.Req.Events.ShuttingDown()
	}
}

// holdEnded notes that a hold is over.
func (e *Engine) holdEnded() {
	if e.active.Add(-1) == 0 {
		e.drain()
	}
}

// drain closes e.drained if the last hold is over and no more will come.
func (e *Engine) drain() {
	if e.draining.Load() && e.active.Load() == 0 {
		e.drainOnce.Do(func() { close(e.drained) })
	}
}

// Close ends waits and holds, releases the locks, and returns when no goroutine is left (rule 16 of
// docs/protocol.md). Its error says how many locks are left. Further calls do nothing.
func (e *Engine) Close() (err error) {
	e.closeOnce.Do(func() { err = e.close() })
	return err
}

func (e *Engine) close() error {
	e.closing.Store(true)
	e.eachCohort(func(c *cohort) { c.failAll(&core.AcquireError{Err: core.ErrClosed}) })
	leases, lost := e.detachLeases()
	notifyLost(lost) // the contexts end before the server grants the locks to others
	for _, l := range leases {
		l.cancel()
	}
	left := e.AwaitEndings()
	e.sender.Cancel()
	e.schedule.Stop()
	e.detector.Stop()
	e.inboxes.Stop()
	e.look.stop()
	e.nodeLooks.stop()
	e.sender.Stop()
	return left.Report(e.cfg.Logger)
}

// detachLeases ends all leases on this side.
func (e *Engine) detachLeases() (leases []*lease, lost []*hold) {
	for _, l := range e.ids.leases() {
		l.c.shard.mu.Lock()
		if !l.over {
			leases = append(leases, l)
			lost = append(lost, l.detach(fmt.Errorf("%w with the lock held", core.ErrClosed))...)
		}
		l.c.shard.mu.Unlock()
	}
	return leases, lost
}
