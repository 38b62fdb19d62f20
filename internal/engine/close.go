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

// Shutdown refuses new calls, ends waits, and returns when no hold is left or ctx ends.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.closing.Store(true)
	e.eachCohort(func(c *cohort) { c.failAll(&core.AcquireError{Err: core.ErrClosed}) })
	e.endLeaders()
	return e.active.AwaitEnd(ctx)
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

// endings counts the releases and cancellations, which Close waits for. One is counted from before its first try until after
// its last, so that none can be overlooked between two tries.
type endings struct {
	begun, ended atomic.Int64
	unreleased   atomic.Int64          // holds that may still be at the server; a request without an answer is not counted
	lastErr      atomic.Pointer[error] // of a try that failed
}

func (n *endings) begin(isHold bool) {
	n.begun.Add(1)
	if isHold {
		n.unreleased.Add(1)
	}
}

// done notes that the server has confirmed an ending.
func (n *endings) done(isHold bool) {
	if n.lastErr.Load() != nil {
		n.lastErr.Store(nil)
	}
	if isHold {
		n.expired()
	}
	n.ended.Add(1)
}

// failed notes why a try has failed.
func (n *endings) failed(err error) { n.lastErr.Store(&err) }

// giveUp notes that there are no more tries. The server keeps the hold until its lease expires.
func (n *endings) giveUp() { n.ended.Add(1) }

// expired notes that a hold is not at the server any more.
func (n *endings) expired() { n.unreleased.Add(-1) }

// isDone reports whether all that has begun has ended.
func (n *endings) isDone() bool {
	ended := n.ended.Load() // read first: it must not include one that has begun later
	return n.begun.Load() == ended
}

func (n *endings) left() Left {
	left := Left{Holds: int(n.unreleased.Load()), Err: core.ErrSilent}
	if err := n.lastErr.Load(); err != nil {
		left.Err = transport.Failure(*err)
	}
	return left
}

// Left is how many holds a Close leaves at the server, and the last reason.
type Left struct {
	Holds int
	Err   error
}

// Report logs what is left, and returns it as the error of the Close; nil if nothing is.
func (l Left) Report(log *slog.Logger) error {
	if l.Holds == 0 {
		return nil
	}
	log.Warn("lockmw: Close could not release all locks; those that are left become free when their leases expire",
		"locks", l.Holds, "error", l.Err)
	return fmt.Errorf("not all locks could be released; left until their leases expire: %d: %w", l.Holds, l.Err)
}

// closePatience is for how long Close waits for the server to confirm one more release or cancellation.
const closePatience = 2 * time.Second

// AwaitEndings returns when the server has confirmed all releases and cancellations, or has confirmed none for a while. What is
// returned is left at the server.
func (e *Engine) AwaitEndings() Left {
	ended, since := e.endings.ended.Load(), clock.Now()
	for e.sender.Context().Err() == nil {
		idle := e.sender.WaitIdle(minCancelDelay) // a call on its way may begin an ending
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
