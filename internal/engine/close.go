package engine

import (
	"context"
	"fmt"
	"time"

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
		return ctx.Err()
	}
}

// endLeaders asks for the end of all holds that would go on for ever.
func (e *Engine) endLeaders() {
	var leaders []*hold
	for _, l := range e.ids.leases() {
		l.c.shard.mu.Lock()
		for h := range l.holds.All() {
			if h.req.Leads {
				leaders = append(leaders, h)
			}
		}
		l.c.shard.mu.Unlock()
	}
	for _, h := range leaders {
		h.req.Events.ShuttingDown()
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
// docs/protocol.md).
func (e *Engine) Close() error {
	e.closeOnce.Do(e.close)
	return nil
}

// closePatience is how long Close waits for the server to confirm releases and cancellations.
const closePatience = 2 * time.Second

// AwaitEndings returns when the server has confirmed all releases and cancellations, or had time for that.
func (e *Engine) AwaitEndings() {
	if e.sender.Context().Err() == nil {
		e.waitConfirmed(closePatience)
	}
}

// waitConfirmed returns when no call is on its way to the server and no release or cancellation waits to be tried
// again, or after patience.
func (e *Engine) waitConfirmed(patience time.Duration) {
	for until := e.now() + patience; ; time.Sleep(minCancelDelay) {
		before := e.schedule.hasEndings() // a call on its way may be one that fails and waits again
		e.sender.WaitIdle(until - e.now())
		if !before && !e.schedule.hasEndings() || e.now() >= until {
			return
		}
	}
}

func (e *Engine) close() {
	e.closing.Store(true)
	e.eachCohort(func(c *cohort) { c.failAll(&core.AcquireError{Err: core.ErrClosed}) })
	leases, lost := e.detachLeases()
	notifyLost(lost) // the contexts end before the server grants the locks to others
	for _, l := range leases {
		l.cancel()
	}
	e.waitConfirmed(closePatience)
	e.sender.Cancel()
	e.schedule.stop()
	e.detector.Stop()
	e.inboxes.stop()
	e.look.stop()
	e.nodeLooks.stop()
	e.sender.Stop()
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
