package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestABusyTaskIsQueuedAgainWithoutSpendingARetry(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	release := usertest.Occupy(t, local, "item:7")
	var failures, delays, handled atomic.Int32
	cfg := quickBare()
	cfg.IsFailure = func(err error) bool { failures.Add(1); return true }
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { delays.Add(1); return time.Hour }
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { handled.Add(1) })
	var attempts atomic.Int32
	counting := func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			attempts.Add(1)
			return next.ProcessTask(ctx, task)
		})
	}
	ran := make(chan int, 1)
	q := startQueue(t, asynqmw.Configure(cfg), counting(asynqmw.WithLock(local, byItem, nextTick)(handle(func(ctx context.Context) error {
		retried, _ := asynq.GetRetryCount(ctx)
		ran <- retried
		return nil
	}))))
	id := q.fulfil("7", asynq.MaxRetry(1))
	eventually(t, func() bool { return attempts.Load() > 3 })
	info := q.await(id, asynq.TaskStateRetry)
	if info.Retried != 0 || !strings.Contains(info.LastErr, "queued again") {
		t.Errorf("retried %d, last error %q", info.Retried, info.LastErr)
	}
	release()
	if retried := receive(t, ran); retried != 0 {
		t.Errorf("the task ran with %d retries spent", retried)
	}
	q.await(id, asynq.TaskStateCompleted)
	if failures.Load()+delays.Load()+handled.Load() > 0 {
		t.Errorf("contention was shown to IsFailure %d, RetryDelayFunc %d, ErrorHandler %d times", failures.Load(), delays.Load(), handled.Load())
	}
}

func TestAFailureOfTheHandlerIsTreatedAsConfigured(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	handled := make(chan error, 1)
	cfg := quickBare()
	cfg.RetryDelayFunc = func(_ int, err error, _ *asynq.Task) time.Duration {
		if !errors.Is(err, broken) {
			t.Errorf("RetryDelayFunc got %v", err)
		}
		return time.Hour
	}
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { handled <- err })
	q := startQueue(t, asynqmw.Configure(cfg), asynqmw.WithLock(lockmw.NewLocal(), byItem)(handle(func(context.Context) error { return broken })))
	info := q.await(q.fulfil("7"), asynq.TaskStateRetry)
	if err := receive(t, handled); !errors.Is(err, broken) {
		t.Errorf("ErrorHandler got %v", err)
	}
	if in := time.Until(info.NextProcessAt); info.Retried != 1 || in < 50*time.Minute {
		t.Errorf("retried %d, again in %v; want 1, 1h", info.Retried, in)
	}
}

func TestConfigureKeepsAsynqsDefaults(t *testing.T) {
	cfg := asynqmw.Configure(asynq.Config{})
	if cfg.IsFailure(nil) || !cfg.IsFailure(errors.New("broken")) {
		t.Error("IsFailure is not asynq's default")
	}
	if d := cfg.RetryDelayFunc(0, errors.New("broken"), fulfilItem("7")); d < 15*time.Second {
		t.Errorf("delay %v is not asynq's default", d)
	}
	if cfg.ErrorHandler != nil {
		t.Error("an ErrorHandler was added")
	}
	if cfg.BaseContext().Err() != nil {
		t.Error("the base context has ended")
	}
}

func TestConfigureKeepsTheBaseContext(t *testing.T) {
	type key struct{}
	base, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
	cfg := asynqmw.Configure(asynq.Config{BaseContext: func() context.Context { return base }})
	ctx := cfg.BaseContext()
	if ctx.Value(key{}) != "value" {
		t.Error("the value is gone")
	}
	why := errors.New("why")
	cancel(why)
	<-ctx.Done()
	if context.Cause(ctx) != why {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}

func TestTheRequeueDelayIsRandomWithinItsBounds(t *testing.T) {
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "item:7")
	for _, tt := range []struct {
		opts     []asynqmw.Option
		min, max time.Duration
	}{
		{nil, time.Second, 2 * time.Second},
		{[]asynqmw.Option{asynqmw.WithRequeueDelay(3*time.Second, 4*time.Second)}, 3 * time.Second, 4 * time.Second},
		{[]asynqmw.Option{asynqmw.WithRequeueDelay(3*time.Second, 3*time.Second)}, 3 * time.Second, 3 * time.Second},
	} {
		h := asynqmw.WithLock(local, byItem, tt.opts...)(never(t))
		delay := asynqmw.Configure(asynq.Config{}).RetryDelayFunc
		seen := map[time.Duration]bool{}
		for range 100 {
			err := h.ProcessTask(t.Context(), fulfilItem("7"))
			d := delay(0, err, nil)
			if d < tt.min || d > tt.max {
				t.Errorf("delay %v, want %v to %v", d, tt.min, tt.max)
			}
			seen[d] = true
		}
		if tt.min < tt.max && len(seen) < 50 {
			t.Errorf("only %d different delays of 100", len(seen))
		}
	}
}

func TestIsBusyDistinguishesARequeueFromFailures(t *testing.T) {
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "item:7")
	process := func(opts ...asynqmw.Option) error {
		return asynqmw.WithLock(local, byItem, opts...)(never(t)).ProcessTask(t.Context(), fulfilItem("7"))
	}
	err := process()
	if !asynqmw.IsBusy(err) || !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("IsBusy is false for %v", err)
	}
	if !asynqmw.IsBusy(errors.Join(errors.New("wrapped"), err)) {
		t.Error("IsBusy is false for a wrapped error")
	}
	for _, action := range []asynqmw.BusyAction{asynqmw.Drop, asynqmw.Fail, asynqmw.Archive} {
		if err := process(asynqmw.WithOnBusy(action)); asynqmw.IsBusy(err) || !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("%v: IsBusy is %t for %v", action, asynqmw.IsBusy(err), err)
		}
	}
	for _, err := range []error{nil, lockmw.ErrBusy, errors.New("broken")} {
		if asynqmw.IsBusy(err) {
			t.Errorf("IsBusy is true for %v", err)
		}
	}
}

// WithMaxWaiters is meant for requests; a task would be lost by it.
func TestTheLastAttemptWaitsDespiteAFullQueue(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	release := usertest.Occupy(t, local, "item:7")
	var waiting atomic.Int32
	observed := lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { waiting.Add(1) },
	})
	q := startQueue(t, quick(), asynqmw.WithLock(local, byItem, lockmw.WithMaxWaiters(1), observed)(handle(func(context.Context) error { return nil })))
	first, second := q.fulfil("7", asynq.MaxRetry(0)), q.fulfil("7", asynq.MaxRetry(0))
	eventually(t, func() bool { return waiting.Load() == 2 })
	release()
	q.await(first, asynq.TaskStateCompleted)
	q.await(second, asynq.TaskStateCompleted)
}

func TestALastAttemptThatWaitsInVainIsArchivedAndSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		local := lockmw.NewLocal()
		usertest.Occupy(t, local, "item:7")
		reported := make(chan error, 1)
		cfg := quickBare()
		cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { reported <- err })
		q := startQueueOn(t, redis, asynqmw.Configure(cfg), asynqmw.WithLock(local, byItem)(never(t)))
		info := q.await(q.fulfil("7", asynq.MaxRetry(0), asynq.Timeout(2*time.Second)), asynq.TaskStateArchived)
		if !strings.Contains(info.LastErr, "last attempt") {
			t.Errorf("last error %q", info.LastErr)
		}
		err := receive(t, reported)
		if asynqmw.IsBusy(err) {
			t.Errorf("ErrorHandler got %v", err)
		}
		if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.ErrorType() != "lock_timeout" {
			t.Errorf("ErrorHandler got %v, want a wait that timed out", err)
		}
	})
}

func TestAWaitEndsBeforeTheTasksDeadline(t *testing.T) {
	for name, tt := range map[string]struct {
		locker []lockmw.Option
		opts   []asynqmw.Option
	}{
		"given to the middleware": {opts: []asynqmw.Option{lockmw.WithWait(lockmw.Forever)}},
		"the Locker's default":    {locker: []lockmw.Option{lockmw.WithWait(lockmw.Forever)}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
				local := lockmw.NewLocal(tt.locker...)
				usertest.Occupy(t, local, "item:7")
				q := startQueueOn(t, redis, quick(), asynqmw.WithLock(local, byItem, append(tt.opts, asynqmw.WithRequeueDelay(time.Hour, time.Hour))...)(never(t)))
				info := q.await(q.fulfil("7", asynq.Timeout(5*time.Second)), asynq.TaskStateRetry)
				if info.Retried != 0 || !strings.Contains(info.LastErr, "queued again") {
					t.Errorf("retried %d, last error %q", info.Retried, info.LastErr)
				}
			})
		})
	}
}

func TestActionsForATaskWithABusyLock(t *testing.T) {
	for _, tt := range []struct {
		action   asynqmw.BusyAction
		state    asynq.TaskState // 0: deleted
		retried  int
		reported bool
	}{
		{asynqmw.Requeue, asynq.TaskStateRetry, 0, false},
		{asynqmw.Drop, 0, 0, false},
		{asynqmw.Fail, asynq.TaskStateRetry, 1, true},
		{asynqmw.Archive, asynq.TaskStateArchived, 0, true},
	} {
		t.Run(tt.action.String(), func(t *testing.T) {
			t.Parallel()
			local := lockmw.NewLocal()
			usertest.Occupy(t, local, "item:7")
			var reported atomic.Bool
			cfg := quickBare()
			cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { reported.Store(true) })
			opts := []asynqmw.Option{asynqmw.WithOnBusy(tt.action)}
			if tt.action == asynqmw.Requeue {
				opts = append(opts, asynqmw.WithRequeueDelay(time.Hour, time.Hour))
			}
			h := asynqmw.WithLock(local, byItem, opts...)(never(t))
			q := startQueue(t, asynqmw.Configure(cfg), h)
			id := q.fulfil("7")
			if tt.state == 0 {
				eventually(t, func() bool {
					_, err := q.inspector.GetTaskInfo("default", id)
					return errors.Is(err, asynq.ErrTaskNotFound)
				})
			} else if info := q.await(id, tt.state); info.Retried != tt.retried {
				t.Errorf("retried %d, want %d", info.Retried, tt.retried)
			}
			if reported.Load() != tt.reported {
				t.Errorf("ErrorHandler called: %t, want %t", reported.Load(), tt.reported)
			}
		})
	}
}

// A server that does not answer is not a busy lock, even if the task's deadline ends the wait.
func TestASilentRedisDropsNoTask(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		silent := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
			<-ctx.Done()
			return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: fmt.Errorf("%w: %w", lockmw.ErrUnavailable, ctx.Err())}
		})
		h := asynqmw.WithLock(silent, byItem, asynqmw.WithOnBusy(asynqmw.Drop))(never(t))
		q := startQueueOn(t, redis, quick(), h)
		info := q.await(q.fulfil("7", asynq.MaxRetry(1), asynq.Timeout(2*time.Second)), asynq.TaskStateRetry, asynq.TaskStateArchived)
		if info.Retried != 1 || !strings.Contains(info.LastErr, "unavailable") {
			t.Errorf("%v after %d retries: %s", info.State, info.Retried, info.LastErr)
		}
	})
}

// asynq does not run a task whose deadline has passed; it counts it as failed.
func TestATaskThatIsQueuedAgainBeyondItsDeadlineFails(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		local := lockmw.NewLocal()
		usertest.Occupy(t, local, "item:7")
		delay := asynqmw.WithRequeueDelay(4*time.Second, 4*time.Second)
		q := startQueueOn(t, redis, quick(), asynqmw.WithLock(local, byItem, delay)(never(t)))
		id := q.fulfil("7", asynq.MaxRetry(1), asynq.Deadline(time.Now().Add(3*time.Second)))
		var info *asynq.TaskInfo
		eventually(t, func() bool {
			var err error
			info, err = q.inspector.GetTaskInfo("default", id)
			return err == nil && info.Retried == 1
		})
		if !strings.Contains(info.LastErr, context.DeadlineExceeded.Error()) {
			t.Errorf("last error %q", info.LastErr)
		}
	})
}
