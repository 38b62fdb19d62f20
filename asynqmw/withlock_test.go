package asynqmw_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestTheHandlerRunsUnderTheLock(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	q := startQueue(t, quick(), asynqmw.WithLock(local, byItem)(handle(func(ctx context.Context) error {
		if hold, err := lockmw.Held(ctx, lockmw.Key("item", "7")); err != nil || hold.Token() == 0 {
			t.Errorf("Held: %v", err)
		}
		if usertest.IsFree(local, "item:7") {
			t.Error("item:7 is free while the handler runs")
		}
		return nil
	})))
	q.await(q.fulfil("7"), asynq.TaskStateCompleted)
	if !usertest.IsFree(local, "item:7") {
		t.Error("item:7 is not free after the task")
	}
}

func TestAServerWithoutConfigureWaitsAndWarnsOnce(t *testing.T) {
	log := usertest.DefaultLog(t)

	local := lockmw.NewLocal()
	release := usertest.Occupy(t, local, "item:7")
	var waiting atomic.Int32
	observed := lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { waiting.Add(1) },
	})
	q := startQueue(t, quickBare(), asynqmw.WithLock(local, byItem, observed)(handle(func(context.Context) error { return nil })))
	first, second := q.fulfil("7"), q.fulfil("7")
	eventually(t, func() bool { return waiting.Load() == 2 })
	release()
	for _, id := range []string{first, second} {
		if info := q.await(id, asynq.TaskStateCompleted, asynq.TaskStateRetry); info.State != asynq.TaskStateCompleted {
			t.Errorf("the task is %v: %s", info.State, info.LastErr)
		}
	}
	if n := strings.Count(log.String(), `level=WARN msg="asynqmw: `); n != 1 { // long waits are also logged
		t.Errorf("warned %d times, want once:\n%s", n, log.String())
	}
	for _, consequence := range []string{"occupy their workers", "spend a retry", "archived"} {
		if !strings.Contains(log.String(), consequence) {
			t.Errorf("the warning does not say %q:\n%s", consequence, log.String())
		}
	}
}

func TestAConfiguredServerIsNotWarnedAbout(t *testing.T) {
	log := usertest.DefaultLog(t)
	q := startQueue(t, quick(), asynqmw.WithLock(lockmw.NewLocal(), byItem)(handle(func(context.Context) error { return nil })))
	q.await(q.fulfil("7"), asynq.TaskStateCompleted)
	if log.String() != "" {
		t.Errorf("logged: %s", log.String())
	}
}

func TestEachAttemptIsAnOwnerOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(asynq.Config) asynq.Config{
		"configured":     asynqmw.Configure,
		"not configured": func(cfg asynq.Config) asynq.Config { return cfg },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := lockmw.NewLocal()
			base, hold := usertest.Lock(t, context.Background(), local, "item:7")
			defer hold.Unlock()
			cfg := quickBare()
			cfg.BaseContext = func() context.Context { return base }
			cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Hour }
			h := asynqmw.WithLock(local, byItem, asynqmw.WithRequeueDelay(time.Hour, time.Hour))(never(t))
			q := startQueue(t, configure(cfg), h)
			q.await(q.fulfil("7", asynq.Timeout(2*time.Second)), asynq.TaskStateRetry)
		})
	}
}

func TestNestedLocksOfOneTaskReenter(t *testing.T) {
	for name, cfg := range map[string]asynq.Config{"configured": quick(), "not configured": quickBare()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := lockmw.NewLocal()
			mux := asynq.NewServeMux()
			mux.Use(asynqmw.WithLock(local, byItem))
			mux.Handle("order:fulfil", asynqmw.WithLock(local, byItem)(handle(func(ctx context.Context) error {
				return lockmw.Do(ctx, local, "item:7", func(context.Context) error { return nil }, lockmw.WithWait(0))
			})))
			q := startQueue(t, cfg, mux)
			if info := q.await(q.fulfil("7"), asynq.TaskStateCompleted, asynq.TaskStateRetry); info.State != asynq.TaskStateCompleted {
				t.Errorf("the task is %v: %s", info.State, info.LastErr)
			}
		})
	}
}

func TestAPanicReleasesTheLock(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	q := startQueue(t, quick(), asynqmw.WithLock(local, byItem)(handle(func(context.Context) error { panic("a bug") })))
	info := q.await(q.fulfil("7"), asynq.TaskStateRetry)
	if !strings.Contains(info.LastErr, "a bug") || info.Retried != 1 {
		t.Errorf("retried %d, last error %q", info.Retried, info.LastErr)
	}
	if !usertest.IsFree(local, "item:7") {
		t.Error("the lock is not free")
	}
}

func TestErrorsThatCountAsBusy(t *testing.T) {
	for _, why := range []error{lockmw.ErrTooManyWaiters, lockmw.ErrDeadlock} {
		refuses := lockmw.LockerFunc(func(ctx context.Context, _ string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
			return ctx, nil, why
		})
		if err := asynqmw.WithLock(refuses, byItem)(never(t)).ProcessTask(t.Context(), fulfilItem("7")); !asynqmw.IsBusy(err) {
			t.Errorf("got %v", err)
		}
	}
}

func TestTheMaximumHoldIsTheTasksDeadlineAndAGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		opts          []asynqmw.Option
		shortest, top time.Duration
		wait          time.Duration
	}{
		"by default": {nil, time.Minute + 20*time.Second, time.Minute + 30*time.Second, 0},
		"by options": {[]asynqmw.Option{lockmw.WithMaxHold(time.Hour), lockmw.WithWait(time.Second)}, time.Hour, time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := lockmw.NewLocal()
			policies := make(chan lockmw.Policy, 1)
			l := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
				policy, err := lockmw.NewPolicy(opts...)
				if err != nil {
					t.Error(err)
				}
				policies <- policy
				return local.Lock(ctx, key, opts...)
			})
			q := startQueue(t, quick(), asynqmw.WithLock(l, byItem, tt.opts...)(handle(func(context.Context) error { return nil })))
			q.fulfil("7", asynq.Timeout(time.Minute))
			p := receive(t, policies)
			if p.MaxHold < tt.shortest || p.MaxHold > tt.top || p.Wait != tt.wait {
				t.Errorf("max hold %v, wait %v; want %v to %v, %v", p.MaxHold, p.Wait, tt.shortest, tt.top, tt.wait)
			}
		})
	}
}

func TestTheLabelIsTheIDOfTheTask(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	labels := make(chan string, 1)
	q := startQueue(t, quick(), asynqmw.WithLock(local, byItem)(handle(func(context.Context) error {
		_, _, err := local.TryLock(t.Context(), "item:7")
		if e, ok := errors.AsType[*lockmw.Error](err); ok && len(e.Holders) == 1 {
			labels <- e.Holders[0].Label
		}
		return err
	})))
	id := q.fulfil("7")
	if got := usertest.Receive(t, "the label", labels); got != id || id == "" {
		t.Errorf("the label is %q, want %q", got, id)
	}
}

func TestAPanicOfTheKeyFunctionSpendsARetry(t *testing.T) {
	local := lockmw.NewLocal()
	broken := func(context.Context, *asynq.Task) (string, error) { panic("a bug") }
	q := startQueue(t, quick(), asynqmw.WithLock(local, broken)(never(t)))
	id := q.fulfil("7", asynq.MaxRetry(3))
	if info := q.await(id, asynq.TaskStateRetry); info.Retried != 1 || !strings.Contains(info.LastErr, "a bug") {
		t.Errorf("retried %d times: %s", info.Retried, info.LastErr)
	}
}

func TestAnUnavailableRedisFailsTheAttempt(t *testing.T) {
	t.Parallel()
	down := lockmw.LockerFunc(func(ctx context.Context, _ string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, lockmw.ErrUnavailable
	})
	q := startQueue(t, quick(), asynqmw.WithLock(down, byItem)(never(t)))
	if info := q.await(q.fulfil("7"), asynq.TaskStateRetry); info.Retried != 1 {
		t.Errorf("retried %d, want 1", info.Retried)
	}
}
