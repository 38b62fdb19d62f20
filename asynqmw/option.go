package asynqmw

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// An Option is any lockmw.Option, or one of this package.
type Option interface{ option.Task }

type taskOption struct {
	option.ForTask
	apply func(*config) error
}

// A BusyAction is what becomes of a task whose lock is busy, after the wait that lockmw.WithWait
// allows.
type BusyAction int

const (
	// Requeue puts the task back into the queue without spending a retry. On the last attempt the
	// task waits in its worker instead. It is the default.
	Requeue BusyAction = iota
	// Drop deletes the task: whoever has the lock is doing its work.
	Drop
	// Fail lets the attempt fail: it spends a retry, and the last one archives the task.
	Fail
	// Archive archives the task at once.
	Archive
)

// String returns the name of the constant.
func (a BusyAction) String() string {
	names := [...]string{"Requeue", "Drop", "Fail", "Archive"}
	if a < 0 || int(a) >= len(names) {
		return fmt.Sprintf("BusyAction(%d)", int(a))
	}
	return names[a]
}

type config struct {
	lockOpts           []lockmw.Option
	onBusy             BusyAction
	minDelay, maxDelay time.Duration
}

// WithOnBusy sets what becomes of a task whose lock is busy. Default: Requeue. lockmw.ErrBusy and
// lockmw.ErrTooManyWaiters count as busy, an unavailable Redis does not.
func WithOnBusy(a BusyAction) Option {
	return taskOption{apply: func(c *config) error {
		if a < Requeue || a > Archive {
			return fmt.Errorf("%w: WithOnBusy(%v)", lockmw.ErrInvalidOption, a)
		}
		c.onBusy = a
		return nil
	}}
}

// WithRequeueDelay sets how long a task that was queued again waits for its next attempt: a random
// time from shortest to longest, so that tasks for one key do not come back all at once. Default:
// 1 s to 15 s. asynq cuts the time off to whole seconds, and adds up to the server's
// DelayedTaskCheckInterval. Negative times and a longest under the shortest are refused.
func WithRequeueDelay(shortest, longest time.Duration) Option {
	return taskOption{apply: func(c *config) error {
		if shortest < 0 || longest < shortest {
			return fmt.Errorf("%w: WithRequeueDelay(%v, %v)", lockmw.ErrInvalidOption, shortest, longest)
		}
		c.minDelay, c.maxDelay = shortest, longest
		return nil
	}}
}

// newConfig checks what WithLock was given and panics if it cannot work: at start, not at the first
// task.
func newConfig(l lockmw.Locker, key KeyFunc, opts []Option) *config {
	if l == nil {
		panic("asynqmw: WithLock: the Locker is nil")
	}
	if key == nil {
		panic("asynqmw: WithLock: the key function is nil")
	}
	c := &config{minDelay: time.Second, maxDelay: 15 * time.Second}
	for i, o := range opts {
		switch o := o.(type) {
		case lockmw.Option:
			c.lockOpts = append(c.lockOpts, o)
		case taskOption:
			if err := o.apply(c); err != nil {
				panic(fmt.Errorf("asynqmw: WithLock: %w", err))
			}
		default:
			panic(fmt.Sprintf("asynqmw: WithLock: option %d is %T, not an Option made by lockmw or asynqmw", i+1, o))
		}
	}
	if _, err := lockmw.NewPolicy(c.lockOpts...); err != nil {
		panic(fmt.Errorf("asynqmw: WithLock: %w", err))
	}
	c.lockOpts = slices.Clip(c.lockOpts)
	return c
}
