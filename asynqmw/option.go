package asynqmw

import (
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/middleware"
	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// An Option configures WithLock and Deduplicate. It is any lockmw.Option, or one of this package.
type Option interface{ option.Task }

type taskOption struct {
	option.ForTask
	middleware.Setting[config]
}

// A BusyAction is the action for a task whose lock is still busy after the wait of lockmw.WithWait.
type BusyAction int

const (
	// Requeue parks the task: it is put back into the queue without spending a retry, and woken when the lock is free. It is the
	// default. On its last attempt the task waits in its worker instead, unless half of the workers wait or WithRescue is set.
	Requeue BusyAction = iota
	// Drop deletes the task. It is for tasks whose work the holder of the lock does already.
	Drop
	// Fail fails the attempt: it spends a retry, and the last attempt archives the task.
	Fail
	// Archive archives the task immediately.
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
	queueRedis         redis.UniversalClient // nil: the Redis of the locks
	waits              bool                  // WithWait lets tasks wait in their workers
	layout             *layout
}

// WithOnBusy sets the action for a task whose lock is busy. Default: Requeue. lockmw.ErrBusy and lockmw.ErrTooManyWaiters count as
// busy; an unavailable Redis does not. For Requeue, lockmw.ErrClosed also counts as busy, because another process may get the
// lock.
//
// asynq delivers a task again while an earlier attempt still runs, if the handler ignores the task's timeout or runs for longer
// than the ShutdownTimeout of asynq.Config. The task then meets its own lock, and any action other than Requeue ends the task. So
// let handlers stop when their context ends, and give shutdowns time.
func WithOnBusy(a BusyAction) Option {
	return taskOption{Setting: func(c *config) error {
		if a < Requeue || a > Archive {
			return fmt.Errorf("%w: WithOnBusy(%v), must be Requeue, Drop, Fail or Archive", lockmw.ErrInvalidOption, a)
		}
		c.onBusy = a
		return nil
	}}
}

// WithRequeueDelay makes tasks that meet a busy lock come back by the clock, instead of being woken when their lock is free. It
// sets the time until the next attempt. Default: tasks are woken; where that is impossible, the delay is 1 s to 15 s.
//
// The delay is random, so that tasks for one key do not come back together. It is at least shortest. Its upper limit is twice
// shortest at first, but at least 2 s, and doubles each time that the task meets a busy lock again, up to longest. asynq truncates
// the delay to whole seconds and adds up to the server's DelayedTaskCheckInterval.
//
// WithLock panics if shortest is negative, if longest is less than shortest, or if WithOnBusy is not Requeue.
func WithRequeueDelay(shortest, longest time.Duration) Option {
	return taskOption{Setting: func(c *config) error {
		if shortest < 0 || longest < shortest {
			return fmt.Errorf("%w: WithRequeueDelay(%v, %v): shortest must not be negative, and longest not less than shortest", lockmw.ErrInvalidOption, shortest, longest)
		}
		c.minDelay, c.maxDelay, c.delayGiven = shortest, longest, true
		return nil
	}}
}

// WithMaxRequeues limits how often in a row a task may be queued again because of its lock. Default: no limit. After n times a
// busy lock fails the attempt, which spends a retry, and WithRescue does not save the task. The count restarts at 0 when a retry is
// spent and when the task gets its lock.
//
// The attempt of a task that was woken and finds the lock busy again does not count. Tasks that are queued again because the
// lockmw.Client is closed are not limited.
//
// asynq does not count these attempts. Each server process does, by task ID, for at least the last 10,000 tasks. So a task that
// meets several servers may be queued again n times by each.
//
// WithLock panics if n is less than 1; use WithOnBusy(Fail) to queue no task again.
func WithMaxRequeues(n int) Option {
	return taskOption{Setting: func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%w: WithMaxRequeues(%d): must be at least 1; use WithOnBusy(Fail) to queue no task again", lockmw.ErrInvalidOption, n)
		}
		c.maxRequeues = n
		return nil
	}}
}

// WithRescue keeps asynq from archiving a task because its lock is busy on its last attempt: after the wait of lockmw.WithWait the
// task is set aside. asynq archives it, and asynqmw immediately puts it back into state retry. The task spends no retry and keeps
// its ID, its deadline and its asynq.Unique lock. asynq logs "Retry exhausted" all the same.
//
// Default: the task waits in its worker until shortly before its deadline, and is archived if its lock is still busy. It is set
// aside if half of the workers wait already. A last attempt that fails for a reason other than a busy lock, such as
// lockmw.ErrUnavailable, is always archived.
//
// Setting a task aside needs access to its queue: the Redis of the locks or of WithQueueRedis must hold the task, and its user must
// be allowed to read and write "asynq:*". Without access, client enqueues a copy, the original is deleted, even if it has a
// retention, and the logger of the lockmw.Client logs a warning. asynq logs "revoke task". The client must use the Redis of the
// queue; the caller closes it.
//
//   - The copy has the type, payload, headers, queue and timeout of the task, and one attempt. It is in state scheduled until its
//     delay has passed, without a last error.
//   - Its ID is the task's ID, "~", a number and random letters. The header lockmw-rescued repeats the number and the letters.
//   - It is not unique, so a task like it may be enqueued in the meantime. It does not have the task's asynq.Deadline.
//   - Middleware cannot see the other options of the task. Pass the options of the copy as opts, such as asynq.Retention. They take
//     precedence over those above.
//   - If the copy cannot be enqueued, the task waits for its lock as without WithRescue, and a warning is logged.
//
// If the process ends in the instant after asynq has archived a task that is set aside, a server that parks tasks puts the task
// back within 12 minutes. With WithRequeueDelay or WithPlaceKept it stays archived. A task may remain next to its copy if the
// server dies, its shutdown ends or asynq's Redis does not answer in the instant after the copy was enqueued. Then the task is
// archived, or both run, one after the other.
//
// WithLock panics if client is nil, or if opts contain asynq.TaskID, asynq.Unique, a Deadline that has passed, or an option that
// asynq would refuse.
func WithRescue(client *asynq.Client, opts ...asynq.Option) Option {
	opts = slices.Clone(opts)
	return taskOption{Setting: func(c *config) error {
		for _, o := range opts {
			if err := checkForCopy(o); err != nil {
				return err
			}
		}
		c.rescue = &rescue{client: client, opts: opts}
		return middleware.CheckGiven("WithRescue", client)
	}}
}

// WithQueueRedis says where asynq's queues are if they are not in the Redis and database of the locks, which is the default. Tasks
// that meet a busy lock are parked there. The caller closes rdb.
//
// Parking also needs the right to read and write "asynq:*", and asynq 0.26.x. If anything is missing, a warning is logged, tasks
// come back after a delay instead of when the lock is free, and no task can be set aside on its last attempt (see WithRescue).
//
// WithLock panics if rdb is nil or WithOnBusy is not Requeue.
func WithQueueRedis(rdb redis.UniversalClient) Option {
	return taskOption{Setting: func(c *config) error {
		c.queueRedis = rdb
		return middleware.CheckGiven("WithQueueRedis", rdb)
	}}
}

// WithPlaceKept keeps the place that a task has in the queue of its lock while the task is queued again. The place is kept for d, as
// by lockmw.WithPlace with the task's ID. Default: no place is kept, and a task that comes back queues behind the requests and
// tasks that wait.
//
// The lock must be a fair lock of package fairlock. It passes over the task while the task is not in a worker. With WithPlaceKept a
// task waits in its worker for 1 s by default (lockmw.WithWait), because only a waiting task gets the lock by its place. While half
// of the workers of its server wait, it only tries, and its place is kept all the same.
//
// The place expires if the task does not come back within d. So d must be longer than the longest WithRequeueDelay and the server's
// DelayedTaskCheckInterval together. WithRequeueDelay(0, time.Second) brings tasks back soonest.
//
// WithLock panics if d is not from 1 ms to 24 h or not longer than the longest WithRequeueDelay, for a lockmw.Client or an
// rwlock.Locker, and with WithOnBusy(Drop) or WithOnBusy(Archive). With any other lock that keeps no places every attempt fails with
// lockmw.ErrInvalidOption.
func WithPlaceKept(d time.Duration) Option {
	return taskOption{Setting: func(c *config) error {
		c.placeKept = d
		return middleware.CheckPlaceKept(d)
	}}
}

// newConfig applies the options of WithLock. It panics if they are invalid, so that a mistake shows at start and not at the first
// task.
func newConfig(l lockmw.Locker, key KeyFunc, opts []Option) *config {
	option.NotNil(l, "asynqmw: WithLock: the Locker is nil")
	option.NotNil(key, "asynqmw: WithLock: the key function is nil")
	c := applyOptions("WithLock", opts)
	lockOpts := append([]lockmw.Option{lockmw.WithDefaults(lockmw.WithWait(0))}, c.lockOpts...)
	policy, err := middleware.CheckLock(l, lockOpts, "WithPlace is one place for all tasks: use WithPlaceKept")
	if err == nil {
		err = c.contradiction(l)
	}
	if err != nil {
		panic(fmt.Errorf("asynqmw: WithLock: %w", err))
	}
	c.waits = policy.Wait > 0
	return c
}

// applyOptions returns the configuration of a middleware, before its options are checked together.
func applyOptions(name string, opts []Option) *config {
	c := &config{minDelay: time.Second, maxDelay: 15 * time.Second, layout: linked}
	c.lockOpts = middleware.Split(c, "asynqmw: "+name, opts)
	return c
}

// contradiction returns an error for options that contradict one another.
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
		return fmt.Errorf("%w: WithPlaceKept(%v): must be longer than the longest requeue delay, %v", lockmw.ErrInvalidOption, c.placeKept, c.maxDelay)
	}
	return nil
}

// parks reports whether tasks are woken when their lock is free. Otherwise they come back by the clock, after WithRequeueDelay or
// to the place that WithPlaceKept keeps.
func (c *config) parks() bool { return c.onBusy == Requeue && !c.delayGiven && c.placeKept == 0 }

// mayBeFair reports whether l may be a lock that keeps places.
func mayBeFair(l lockmw.Locker) bool {
	switch l.(type) {
	case *lockmw.Client, *rwlock.Locker:
		return false
	}
	return true
}
