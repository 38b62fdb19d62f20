package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/transport"
)

// Shutdown refuses new calls, ends waits, and returns when all holds have ended or ctx ends.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.closing.Store(true)
	e.eachCohort(func(c *cohort) { c.failAll(&core.AcquireError{Err: core.ErrClosed}) })
	e.endLeaders()
	return e.active.AwaitEnd(ctx)
}

// endLeaders asks leaders to end their holds, which would otherwise last forever.
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

// Close ends waits and holds, releases the locks, and returns when all goroutines have ended (rule 16 of docs/protocol.md). Its
// error gives the number of locks that are left. Further calls do nothing.
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
		l.cancelHeld()
	}
	left := e.AwaitEndings()
	e.sender.Cancel()
	e.schedule.Stop()
	e.detector.Stop()
	e.inboxes.Stop()
	e.diagnoses.Stop()
	e.sender.Stop()
	return left.Report(e.cfg.Logger)
}

// detachLeases ends all leases in this process.
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

// endings counts releases and cancellations, for which Close waits. Each is counted from before its first try until after its
// last, so that none is overlooked between two tries.
type endings struct {
	begun, ended atomic.Int64
	unreleased   atomic.Int64          // holds that may still be on the server; a request without an answer is not counted
	lastErr      atomic.Pointer[error] // of a failed try
}

func (n *endings) begin(isHold bool) {
	n.begun.Add(1)
	if isHold {
		n.unreleased.Add(1)
	}
}

// done records that the server has confirmed an ending.
func (n *endings) done(isHold bool) {
	if n.lastErr.Load() != nil {
		n.lastErr.Store(nil)
	}
	if isHold {
		n.expired()
	}
	n.ended.Add(1)
}

// failed records the error of a try.
func (n *endings) failed(err error) { n.lastErr.Store(&err) }

// giveUp records that there are no more tries. The server keeps the hold until its lease expires.
func (n *endings) giveUp() { n.ended.Add(1) }

// expired records that a hold is no longer on the server.
func (n *endings) expired() { n.unreleased.Add(-1) }

// isDone reports whether all that has begun has ended.
func (n *endings) isDone() bool {
	ended := n.ended.Load() // read first, so that it does not include one that begins later
	return n.begun.Load() == ended
}

func (n *endings) left() Unreleased {
	left := Unreleased{Holds: int(n.unreleased.Load()), Err: core.ErrNoAnswer}
	if err := n.lastErr.Load(); err != nil {
		left.Err = transport.Failure(*err)
	}
	return left
}

// Unreleased is the number of holds that a Close leaves on the server, and the last error.
type Unreleased struct {
	Holds int
	Err   error
}

// Report logs the holds that are left, and returns the error of the Close; nil if none are left.
func (l Unreleased) Report(log *slog.Logger) error {
	if l.Holds == 0 {
		return nil
	}
	log.Warn("lockmw: Close could not release all locks; the rest expire with their leases",
		"locks", l.Holds, "error", l.Err)
	return fmt.Errorf("locks not released: %d, held until their leases expire: %w", l.Holds, l.Err)
}

// closePatience is how long Close waits for the server to confirm another release or cancellation.
const closePatience = 2 * time.Second

// AwaitEndings returns when the server has confirmed all releases and cancellations, or has confirmed none for a while. It
// returns what is left on the server.
func (e *Engine) AwaitEndings() Unreleased {
	ended, since := e.endings.ended.Load(), clock.Now()
	for e.sender.Context().Err() == nil {
		idle := e.sender.WaitIdle(minCancelDelay) // a call in flight may begin an ending
		if idle && e.endings.isDone() {
			break
		}
		now := clock.Now()
		if n := e.endings.ended.Load(); n != ended {
			ended, since = n, now
		}
		if now.Sub(since) >= closePatience {
			break
		}
		if idle {
			time.Sleep(minCancelDelay)
		}
	}
	return e.endings.left()
}
