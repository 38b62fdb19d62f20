package asynqmw

import (
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// An Option is any lockmw.Option, or one of this package.
type Option interface{ option.Task }

type taskOption struct {
	option.ForTask
	apply func(*config) error
}

// A BusyAction is what happens to a task whose lock is busy, after the wait that lockmw.WithWait
// allows.
type BusyAction int

const (
	// Requeue parks the task: it is put back into the queue without spending a retry, and woken when the lock is
	// free. On the last attempt, unless there is WithRescue or half of the workers wait, the task waits in its worker
	// instead. It is the default.
	Requeue BusyAction = iota
	// Drop deletes the task: the holder of the lock does its work already.
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
	delayGiven         bool
	maxRequeues        int // 0: no limit
	placeKept          time.Duration
	rescue             *rescue
	queueRedis         redis.UniversalClient // nil: that of the locks
	waits              bool                  // WithWait lets it wait in its worker
	layout             *layout
}

// WithOnBusy sets what happens to a task whose lock is busy. Default: Requeue. lockmw.ErrBusy and
// lockmw.ErrTooManyWaiters count as busy, an unavailable Redis does not. For Requeue lockmw.ErrClosed
// counts as busy too: another process may get the lock.
//
// asynq delivers a task again while an earlier attempt at it still runs, if the handler goes on after the
// task's timeout, or for longer than asynq.Config's ShutdownTimeout. The lock is busy then because of the
// task itself, and any other action than Requeue ends the task: let handlers heed their context, and give
// shutdowns time.
func WithOnBusy(a BusyAction) Option {
	return taskOption{apply: func(c *config) error {
		if a < Requeue || a > Archive {
			return fmt.Errorf("%w: WithOnBusy(%v), must be Requeue, Drop, Fail or Archive", lockmw.ErrInvalidOption, a)
		}
		c.onBusy = a
		return nil
	}}
}

// WithRequeueDelay has tasks that were queued again come back by the clock: they are not woken when their lock is
// free. It sets how long a task waits for its next attempt. Where tasks cannot be woken it is 1 s to
// 15 s by default. The time is random, so that tasks for one key do not come back all at once. It is at least
// shortest. At first it is at most twice shortest (2 s at least), and that limit doubles each time the
// task meets a busy lock again, up to longest. asynq cuts the time off to whole seconds, and adds up to
// the server's DelayedTaskCheckInterval. Refused are a negative time, a longest that is below shortest, and
// a WithOnBusy that queues nothing again.
func WithRequeueDelay(shortest, longest time.Duration) Option {
	return taskOption{apply: func(c *config) error {
		if shortest < 0 || longest < shortest {
			return fmt.Errorf("%w: WithRequeueDelay(%v, %v): shortest must not be negative, and longest not be below it", lockmw.ErrInvalidOption, shortest, longest)
		}
		c.minDelay, c.maxDelay, c.delayGiven = shortest, longest, true
		return nil
	}}
}

// WithMaxRequeues sets how often in a row a task may be queued again because of its lock; after that a
// busy lock fails the attempt, which spends a retry, and WithRescue makes no further copy of the task.
// Default: no limit. The count begins anew when a retry is spent, and when the task gets its lock.
//
// Attempts of tasks that were woken are not counted, if they find the lock busy again.
//
// asynq does not count these attempts. Each server process does, by task ID, for the last 10,000 tasks
// at least: a task that meets several servers may be queued again n times by each. Tasks that are queued
// again because the lockmw.Client is closed are not limited. Less than 1 is refused; that would be
// WithOnBusy(Fail).
func WithMaxRequeues(n int) Option {
	return taskOption{apply: func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%w: WithMaxRequeues(%d): must be at least 1; use WithOnBusy(Fail) to queue nothing again", lockmw.ErrInvalidOption, n)
		}
		c.maxRequeues = n
		return nil
	}}
}

// WithRescue saves a task whose lock is busy on its last attempt from being archived: when the wait that
// lockmw.WithWait allows has ended, the task is set aside. asynq archives it, and it is put back into state retry
// immediately afterwards: no retry is spent, and it has its ID, its deadline and what asynq.Unique keeps for it all the time.
// asynq logs "Retry exhausted". Default: the task waits in its worker until shortly before its deadline, as long as not
// half of the workers wait, and is archived if its lock is busy then. Last attempts that fail for another reason than
// their lock, for example with lockmw.ErrUnavailable, are archived in any case.
//
// A task is set aside in the Redis of the queues: that of the locks, or of WithQueueRedis. If the task is not there, or
// the user may not read and write "asynq:*", client enqueues a copy of the task instead, and a warning is logged, by the
// logger of the lockmw.Client. The client must be of the queue's Redis; the caller closes it. The copy has the same type,
// payload, headers, queue and timeout, and one attempt too. Its ID is that of the task, "~", a number and some random
// letters, which the header lockmw-rescued repeats. Until its delay has passed it is in state scheduled, without a last
// error. It does not have the task's asynq.Deadline, and is not unique: a task like it may be enqueued meanwhile. The
// task itself is deleted, even if it has a retention; asynq warns of that in its log ("revoke task").
//
// A middleware cannot find out what other options the task was enqueued with: give the options of the copy as opts, for
// example asynq.Retention. They may replace what the copy has by itself. Refused are a nil client, asynq.TaskID,
// asynq.Unique, a Deadline that has passed, and options that asynq would refuse. If no copy can be enqueued, the task
// waits for its lock as without WithRescue, and a warning is logged.
//
// If the process ends in the instant after asynq has archived a task that is set aside, a server that parks tasks puts it
// back within 12 minutes; with WithRequeueDelay or WithPlaceKept it stays archived. A task is left behind next to its
// copy if the server dies, its shutdown ends or asynq's Redis does not answer in the instant after the copy was enqueued.
// Then the task is archived, or both run, one after the other.
func WithRescue(client *asynq.Client, opts ...asynq.Option) Option {
	opts = slices.Clone(opts)
	return taskOption{apply: func(c *config) error {
		if client == nil {
			return fmt.Errorf("%w: WithRescue(nil)", lockmw.ErrInvalidOption)
		}
		for _, o := range opts {
			if err := checkForCopy(o); err != nil {
				return err
			}
		}
		c.rescue = &rescue{client: client, opts: opts}
		return nil
	}}
}

// WithQueueRedis says that asynq's queues are in the Redis, or the database, of rdb. Default: that of the locks.
// Tasks that meet a busy lock are parked there: without it, or the right to read and write "asynq:*", or with another
// release of asynq than 0.26.x, they come back after a delay and not when the lock is free, which is logged, and no task can be
// set aside on its last attempt (see WithRescue). The caller closes rdb. Refused are nil, and a WithOnBusy other than Requeue.
func WithQueueRedis(rdb redis.UniversalClient) Option {
	return taskOption{apply: func(c *config) error {
		if option.IsNil(rdb) {
			return fmt.Errorf("%w: WithQueueRedis(nil)", lockmw.ErrInvalidOption)
		}
		c.queueRedis = rdb
		return nil
	}}
}

// WithPlaceKept keeps the place of a task that is queued again in the queue of its lock, which must be
// one of package fairlock: lockmw.WithPlace with the task's ID. The lock passes over the task while it is
// away. Without the option, such a task begins at the end each time, behind whatever waits in a worker or
// a request. Default: no place is kept.
//
// The place is of use only while the task waits in a worker, which it then does for 1 s by default
// (lockmw.WithWait). While half of the workers of its server wait, it only tries, and its place is kept all the same. With
// WithRequeueDelay(0, time.Second) it is away for the shortest time. The place is
// given up if the task does not come back within d, which must be longer than the longest
// WithRequeueDelay and the server's DelayedTaskCheckInterval together. A lockmw.Client and an rwlock.Locker
// are refused; with any other lock that keeps no places every attempt fails with lockmw.ErrInvalidOption.
func WithPlaceKept(d time.Duration) Option {
	return taskOption{apply: func(c *config) error {
		if _, err := lockmw.NewPolicy(lockmw.WithPlace("task", d)); err != nil || d == 0 {
			return fmt.Errorf("%w: WithPlaceKept(%v), must be from 1ms to 24h", lockmw.ErrInvalidOption, d)
		}
		c.placeKept = d
		return nil
	}}
}

// newConfig adds up the options of WithLock. It panics if that cannot work, so that a mistake is found at
// start and not at the first task.
func newConfig(l lockmw.Locker, key KeyFunc, opts []Option) *config {
	if option.IsNil(l) {
		panic("asynqmw: WithLock: the Locker is nil")
	}
	if key == nil {
		panic("asynqmw: WithLock: the key function is nil")
	}
	c := &config{minDelay: time.Second, maxDelay: 15 * time.Second, layout: linked}
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
	policy, err := lockmw.NewPolicy(append([]lockmw.Option{lockmw.WithDefaults(lockmw.WithWait(0))}, c.lockOpts...)...)
	c.waits = policy.Wait > 0
	switch {
	case err != nil:
	case policy.Place != "":
		err = fmt.Errorf("%w: WithPlace is for one task, use WithPlaceKept", lockmw.ErrInvalidOption)
	default:
		err = lockmw.CheckOptions(l, c.lockOpts...)
	}
	if err != nil {
		panic(fmt.Errorf("asynqmw: WithLock: %w", err))
	}
	if err := c.contradiction(l); err != nil {
		panic(fmt.Errorf("asynqmw: WithLock: %w", err))
	}
	c.lockOpts = slices.Clip(c.lockOpts)
	return c
}

// contradiction finds options that make no sense together.
func (c *config) contradiction(l lockmw.Locker) error {
	for _, o := range []struct {
		name  string
		given bool
	}{
		{"WithMaxRequeues", c.maxRequeues > 0}, {"WithRequeueDelay", c.delayGiven}, {"WithRescue", c.rescue != nil}, {"WithQueueRedis", c.queueRedis != nil},
	} {
		if o.given && c.onBusy != Requeue {
			return fmt.Errorf("%w: %s with WithOnBusy(%v): no task is queued again", lockmw.ErrInvalidOption, o.name, c.onBusy)
		}
	}
	switch {
	case c.placeKept == 0:
	case c.onBusy == Drop || c.onBusy == Archive:
		return fmt.Errorf("%w: WithPlaceKept with WithOnBusy(%v): the task does not come back", lockmw.ErrInvalidOption, c.onBusy)
	case !mayBeFair(l):
		return fmt.Errorf("%w: WithPlaceKept with a %T, which keeps no places: use fairlock.New", lockmw.ErrInvalidOption, l)
	case c.onBusy == Requeue && c.placeKept <= c.maxDelay:
		return fmt.Errorf("%w: WithPlaceKept(%v) is no longer than a task may be away, %v", lockmw.ErrInvalidOption, c.placeKept, c.maxDelay)
	}
	return nil
}

// parks reports whether tasks are woken when their lock is free. Otherwise they come back by the clock: as
// WithRequeueDelay has it, or to the place in the queue of the lock that WithPlaceKept has kept for them.
func (c *config) parks() bool { return c.onBusy == Requeue && !c.delayGiven && c.placeKept == 0 }

// mayBeFair reports whether l may be a lock that keeps places.
func mayBeFair(l lockmw.Locker) bool {
	switch l.(type) {
	case *lockmw.Client, *rwlock.Locker:
		return false
	}
	return true
}
