package rivermw

import (
	"fmt"
	"time"

	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option configures WithLock. It is any lockmw.Option, or one of this package.
type Option interface{ option.Job }

type jobOption struct {
	option.ForJob
	middleware.Setting[config]
}

// A BusyAction is the action for a job whose lock is still busy after the wait.
type BusyAction int

const (
	// Snooze puts the job back without spending an attempt. It is the default.
	Snooze BusyAction = iota
	// Drop completes the job without running its worker. It is for jobs whose work the holder of the lock does already.
	Drop
	// Fail fails the attempt. After the last attempt river discards the job.
	Fail
	// Cancel cancels the job.
	Cancel
)

// String returns the name of the constant.
func (a BusyAction) String() string {
	names := [...]string{"Snooze", "Drop", "Fail", "Cancel"}
	if a < 0 || int(a) >= len(names) {
		return fmt.Sprintf("BusyAction(%d)", int(a))
	}
	return names[a]
}

type config struct {
	lockOpts           []lockmw.Option
	onBusy             BusyAction
	minDelay, maxDelay time.Duration // 0, 0: not given
	maxSnoozes         int           // 0: no limit
	waiting            int
	placeKept          time.Duration
	waker              *Waker
}

// WithOnBusy sets the action for a job whose lock is busy. Default: Snooze. lockmw.ErrBusy and lockmw.ErrTooManyWaiters count as
// busy; an unavailable Redis does not. For Snooze, lockmw.ErrClosed also counts as busy, because another process may get the lock.
//
// river runs a job again while an earlier attempt still runs, if that attempt outlives RescueStuckJobsAfter. The job then meets its
// own lock, and any action other than Snooze and Fail ends it.
func WithOnBusy(a BusyAction) Option {
	return jobOption{Setting: func(c *config) error {
		if a < Snooze || a > Cancel {
			return fmt.Errorf("%w: WithOnBusy(%v), must be Snooze, Drop, Fail or Cancel", lockmw.ErrInvalidOption, a)
		}
		c.onBusy = a
		return nil
	}}
}

// WithMaxWaiting limits how many jobs of the middleware may wait for locks in their workers. Default 5. Set it to about half of the
// queue's MaxWorkers, so that jobs with free locks find workers. A job that finds no place to wait is snoozed. How long a job waits
// is set by lockmw.WithWait, by default one second. A negative n makes WithLock panic.
func WithMaxWaiting(n int) Option {
	return jobOption{Setting: func(c *config) error {
		if n < 0 {
			return fmt.Errorf("%w: WithMaxWaiting(%d): must not be negative", lockmw.ErrInvalidOption, n)
		}
		c.waiting = n
		return nil
	}}
}

// WithSnooze sets for how long a job that meets a busy lock is snoozed. The time is random and at least shortest. Its upper limit is
// twice shortest at first, and doubles each time that the job meets a busy lock again, up to longest. Default: 1 s to 15 s; with
// WithWaker 15 s to 2 minutes, because a snoozed job is woken sooner. WithLock panics if shortest is not positive or longest is less
// than shortest.
func WithSnooze(shortest, longest time.Duration) Option {
	return jobOption{Setting: func(c *config) error {
		c.minDelay, c.maxDelay = shortest, longest
		return middleware.CheckDelays("WithSnooze", shortest, longest)
	}}
}

// WithMaxSnoozes limits how often in a row a job may be snoozed because of its lock. Default: no limit. After n times a busy lock
// fails the attempt. The count is in the job's metadata, so it holds for all processes. It restarts when the job gets its lock and when an
// attempt fails without it. WithLock panics if n is less than 1; use WithOnBusy(Fail) to snooze no job.
func WithMaxSnoozes(n int) Option {
	return jobOption{Setting: func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%w: WithMaxSnoozes(%d): must be at least 1; use WithOnBusy(Fail) to snooze no job", lockmw.ErrInvalidOption, n)
		}
		c.maxSnoozes = n
		return nil
	}}
}

// WithPlaceKept keeps a snoozed job's place in the queue of its lock for d. Default: no place is kept, and a job that comes back
// queues behind the requests and jobs that wait. The lock must be a fair lock of package fairlock. It passes over the job while the
// job is not in a worker. The place expires if the job does not come back within d.
//
// WithLock panics if d is not from 1 ms to 24 h or not longer than the longest WithSnooze, and unless WithOnBusy is Snooze. With a
// lock that keeps no places every attempt fails with lockmw.ErrInvalidOption.
func WithPlaceKept(d time.Duration) Option {
	return jobOption{Setting: func(c *config) error {
		c.placeKept = d
		return middleware.CheckPlaceKept(d)
	}}
}

// WithWaker wakes snoozed jobs when their lock is free. Default: they come back by the clock, after WithSnooze. WithLock panics if w
// is nil or WithOnBusy is not Snooze.
func WithWaker(w *Waker) Option {
	return jobOption{Setting: func(c *config) error {
		c.waker = w
		return middleware.CheckGiven("WithWaker", w)
	}}
}

// newConfig applies the options of WithLock. It panics if they are invalid, so that a mistake shows at start and not at the first
// job.
func newConfig(l lockmw.Locker, opts []Option) config {
	c := config{waiting: 5}
	c.lockOpts = middleware.Split(&c, "rivermw: WithLock", opts)
	if err := c.check(l); err != nil {
		panic(fmt.Errorf("rivermw: WithLock: %w", err))
	}
	return c
}

// check sets the default of WithSnooze, and returns an error for options that are invalid or contradict one another.
func (c *config) check(l lockmw.Locker) error {
	if _, err := middleware.CheckLock(l, c.lockOpts, "WithPlace is one place for all jobs: use WithPlaceKept"); err != nil {
		return err
	}
	for _, o := range []struct {
		name  string
		given bool
	}{
		{"WithMaxSnoozes", c.maxSnoozes > 0}, {"WithSnooze", c.minDelay > 0}, {"WithPlaceKept", c.placeKept > 0}, {"WithWaker", c.waker != nil},
	} {
		if o.given && c.onBusy != Snooze {
			return fmt.Errorf("%w: %s with WithOnBusy(%v): no job is snoozed", lockmw.ErrInvalidOption, o.name, c.onBusy)
		}
	}
	switch {
	case c.minDelay > 0:
	case c.waker != nil:
		c.minDelay, c.maxDelay = 15*time.Second, 2*time.Minute
	default:
		c.minDelay, c.maxDelay = time.Second, 15*time.Second
	}
	if c.placeKept > 0 && c.placeKept <= c.maxDelay {
		return fmt.Errorf("%w: WithPlaceKept(%v): must be longer than the longest snooze, %v", lockmw.ErrInvalidOption, c.placeKept, c.maxDelay)
	}
	return nil
}
