package asynqmw_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/lockmw"
)

func TestTasksForOneItemNeverOverlap(t *testing.T) {
	t.Parallel()
	const tasks = 20
	var inside, most, done atomic.Int32
	q := startQueue(t, quick(), asynqmw.WithLock(lockmw.NewLocal(), byItem, atOnce)(handle(func(context.Context) error {
		if now := inside.Add(1); now > most.Load() {
			most.Store(now)
		}
		inside.Add(-1)
		done.Add(1)
		return nil
	})))
	for range tasks {
		q.fulfil("7", asynq.MaxRetry(3))
	}
	eventually(t, func() bool { return done.Load() == tasks })
	if most.Load() != 1 {
		t.Errorf("%d ran at the same time", most.Load())
	}
}

func TestTheHandlerRunsUnderTheLock(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	q := startQueue(t, quick(), asynqmw.WithLock(local, byItem)(handle(func(ctx context.Context) error {
		if hold, err := lockmw.Held(ctx, lockmw.Key("item", "7")); err != nil || hold.Token() == 0 {
			t.Errorf("Held: %v", err)
		}
		if isFree(local, "item:7") {
			t.Error("item:7 is free while the handler runs")
		}
		return nil
	})))
	q.await(q.fulfil("7"), asynq.TaskStateCompleted)
	if !isFree(local, "item:7") {
		t.Error("item:7 is not free after the task")
	}
}

func TestAServerWithoutConfigureWaitsAndWarnsOnce(t *testing.T) {
	var log syncBuffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })

	local := lockmw.NewLocal()
	release := occupy(t, local, "item:7")
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
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("warned %d times, want once:\n%s", n, log.String())
	}
	for _, consequence := range []string{"keep their worker", "spend a retry", "archived"} {
		if !strings.Contains(log.String(), consequence) {
			t.Errorf("the warning does not say %q:\n%s", consequence, log.String())
		}
	}
}

func TestAConfiguredServerIsNotWarnedAbout(t *testing.T) {
	var log syncBuffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	q := startQueue(t, quick(), asynqmw.WithLock(lockmw.NewLocal(), byItem)(handle(func(context.Context) error { return nil })))
	q.await(q.fulfil("7"), asynq.TaskStateCompleted)
	if log.String() != "" {
		t.Errorf("logged: %s", log.String())
	}
}

func TestTheLockIsHeldUntilTheHandlerReturns(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	inside, leave := make(chan struct{}), make(chan struct{})
	cfg := quickBare()
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Hour }
	q := startQueue(t, asynqmw.Configure(cfg), asynqmw.WithLock(local, byItem)(handle(func(context.Context) error {
		close(inside)
		<-leave // whatever happens to its context
		return nil
	})))
	id := q.fulfil("7", asynq.Timeout(time.Second))
	receive(t, inside)
	q.await(id, asynq.TaskStateRetry) // asynq has given up
	if isFree(local, "item:7") {
		t.Error("the lock is free while the handler still works")
	}
	close(leave)
	eventually(t, func() bool { return isFree(local, "item:7") })
}

func TestEachAttemptIsAnOwnerOfItsOwn(t *testing.T) {
	for name, configure := range map[string]func(asynq.Config) asynq.Config{
		"configured":     asynqmw.Configure,
		"not configured": func(cfg asynq.Config) asynq.Config { return cfg },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			local := lockmw.NewLocal()
			base, hold, err := local.Lock(context.Background(), "item:7")
			if err != nil {
				t.Fatal(err)
			}
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

func TestALostLockFailsTheAttempt(t *testing.T) {
	broken := errors.New("broken")
	for name, returned := range map[string]error{"of a handler that succeeds": nil, "of a handler that fails": broken} {
		t.Run(name, func(t *testing.T) {
			local := lockmw.NewLocal()
			h := asynqmw.WithLock(local, byItem)(handle(func(ctx context.Context) error {
				local.Expire("item:7")
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
					t.Errorf("cause %v", cause)
				}
				return returned
			}))
			err := h.ProcessTask(t.Context(), fulfilItem("7"))
			if !errors.Is(err, lockmw.ErrLost) || returned != nil && !errors.Is(err, returned) {
				t.Errorf("got %v, want ErrLost and %v", err, returned)
			}
		})
	}
}

func TestAnUnconfirmedReleaseDoesNotFailTheAttempt(t *testing.T) {
	l := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		ctx, hold := lockmw.NewHold(ctx, key, 1, func(context.Context) error { return lockmw.ErrUnavailable })
		return ctx, hold, nil
	})
	if err := asynqmw.WithLock(l, byItem)(handle(func(context.Context) error { return nil })).ProcessTask(t.Context(), fulfilItem("7")); err != nil {
		t.Error(err)
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
	if !isFree(local, "item:7") {
		t.Error("the lock is not free")
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

func TestATaskThatCanHaveNoKeyIsArchived(t *testing.T) {
	text := func(context.Context, *asynq.Task) (string, error) { return "", nil }
	long := func(context.Context, *asynq.Task) (string, error) { return strings.Repeat("x", 2000), nil }
	for name, tt := range map[string]struct {
		key     asynqmw.KeyFunc
		payload string
	}{
		"a payload that is not JSON":   {byItem, "7"},
		"a payload without the field":  {byItem, "{}"},
		"a missing header":             {asynqmw.By("item", asynqmw.Header("item")), "{}"},
		"an empty key":                 {text, "{}"},
		"a key longer than is allowed": {long, "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := startQueue(t, quick(), asynqmw.WithLock(lockmw.NewLocal(), tt.key)(never(t)))
			info := q.await(q.enqueue(asynq.NewTask("order:fulfil", []byte(tt.payload))), asynq.TaskStateArchived, asynq.TaskStateRetry)
			if info.State != asynq.TaskStateArchived {
				t.Errorf("the task is %v: %s", info.State, info.LastErr)
			}
		})
	}
}

func TestAnEmptyKeyIsNotShownToTheLocker(t *testing.T) {
	l := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		t.Errorf("asked for %q", key)
		return ctx, nil, lockmw.ErrBusy
	})
	key := func(context.Context, *asynq.Task) (string, error) { return "", nil }
	err := asynqmw.WithLock(l, key)(never(t)).ProcessTask(t.Context(), fulfilItem("7"))
	if !errors.Is(err, lockmw.ErrInvalidKey) || !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("got %v", err)
	}
}

func TestTooManyWaitersIsBusyToo(t *testing.T) {
	full := lockmw.LockerFunc(func(ctx context.Context, _ string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return ctx, nil, lockmw.ErrTooManyWaiters
	})
	if err := asynqmw.WithLock(full, byItem)(never(t)).ProcessTask(t.Context(), fulfilItem("7")); !asynqmw.IsBusy(err) {
		t.Errorf("got %v", err)
	}
}

func TestAKeyFunctionThatFailsFailsTheAttempt(t *testing.T) {
	cause := errors.New("database is away")
	key := func(context.Context, *asynq.Task) (string, error) { return "", cause }
	err := asynqmw.WithLock(lockmw.NewLocal(), key)(never(t)).ProcessTask(t.Context(), fulfilItem("7"))
	if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.Op != "key" || !errors.Is(err, cause) || errors.Is(err, asynq.SkipRetry) {
		t.Errorf("got %v", err)
	}
}

func TestErrNoLockRunsTheTaskWithoutALock(t *testing.T) {
	local := lockmw.NewLocal()
	ran := false
	key := func(context.Context, *asynq.Task) (string, error) {
		return "", fmt.Errorf("free: %w", lockmw.ErrNoLock)
	}
	h := asynqmw.WithLock(local, key)(handle(func(ctx context.Context) error {
		_, held := lockmw.FromContext(ctx)
		ran = !held
		return nil
	}))
	if err := h.ProcessTask(t.Context(), fulfilItem("7")); err != nil || !ran {
		t.Errorf("ran without a lock: %t, error %v", ran, err)
	}
}

func TestPartsMakeTheKeyThatRequestsHave(t *testing.T) {
	var keys []string
	local := lockmw.NewLocal()
	l := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		keys = append(keys, key)
		return local.Lock(ctx, key, opts...)
	})
	h := asynqmw.WithLock(l, asynqmw.By("order", asynqmw.Payload(func(o order) string { return o.Item }), asynqmw.Header("region")))(handle(func(context.Context) error { return nil }))
	task := asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"a:b"}`), map[string]string{"region": "eu"})
	if err := h.ProcessTask(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if want := lockmw.Key("order", "a:b", "eu"); len(keys) != 1 || keys[0] != want {
		t.Errorf("keys %q, want %q", keys, want)
	}
}

func TestTheMaximumHoldIsTheTasksDeadlineAndAGrace(t *testing.T) {
	for name, tt := range map[string]struct {
		opts          []asynqmw.Option
		shortest, top time.Duration
		wait          time.Duration
	}{
		"by default":    {nil, time.Minute + 20*time.Second, time.Minute + 30*time.Second, 0},
		"as one wishes": {[]asynqmw.Option{lockmw.WithMaxHold(time.Hour), lockmw.WithWait(time.Second)}, time.Hour, time.Hour, time.Second},
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

func TestMistakesPanicWhereTheMiddlewareIsMounted(t *testing.T) {
	local, client := lockmw.NewLocal(), new(asynq.Client)
	lock := func(opts ...asynqmw.Option) func() {
		return func() { asynqmw.WithLock(local, byItem, opts...) }
	}
	for _, tt := range []struct {
		name  string
		mount func()
		says  string
	}{
		{"no Locker", func() { asynqmw.WithLock(nil, byItem) }, "Locker is nil"},
		{"a Client that New did not return", func() { asynqmw.WithLock((*lockmw.Client)(nil), byItem) }, "Locker is nil"},
		{"one ticket for all", lock(lockmw.WithTicket("a", time.Minute)), "WithPlaceKept"},
		{"a place kept for what does not come back", lock(asynqmw.WithPlaceKept(time.Minute), asynqmw.WithOnBusy(asynqmw.Drop)), "WithOnBusy(Drop)"},
		{"no key", func() { asynqmw.WithLock(local, nil) }, "key function is nil"},
		{"no handler", func() { asynqmw.WithLock(local, byItem)(nil) }, "handler to lock is nil"},
		{"no handler to trace", func() { asynqmw.Trace(nil)(nil) }, "handler to trace is nil"},
		{"a nil option", lock(nil), "option 1"},
		{"a negative wait", lock(lockmw.WithWait(-time.Second)), "WithWait"},
		{"an unknown action", lock(asynqmw.WithOnBusy(9)), "BusyAction(9)"},
		{"a negative delay", lock(asynqmw.WithRequeueDelay(-1, 1)), "WithRequeueDelay"},
		{"delays the wrong way round", lock(asynqmw.WithRequeueDelay(2, 1)), "WithRequeueDelay"},
		{"no requeue at all", lock(asynqmw.WithMaxRequeues(0)), "WithMaxRequeues(0)"},
		{"a limit of requeues without any", lock(asynqmw.WithMaxRequeues(1), asynqmw.WithOnBusy(asynqmw.Drop)), "WithOnBusy(Drop)"},
		{"a rescue without a client", lock(asynqmw.WithRescue(nil)), "WithRescue(nil)"},
		{"a rescue with a nil option", lock(asynqmw.WithRescue(client, nil)), "nil"},
		{"a rescue with an ID", lock(asynqmw.WithRescue(client, asynq.TaskID("a"))), "TaskID"},
		{"a unique rescue", lock(asynqmw.WithRescue(client, asynq.Unique(time.Hour))), "Unique"},
		{"a rescue of what is not to be queued", lock(asynqmw.WithRescue(client), asynqmw.WithOnBusy(asynqmw.Fail)), "WithOnBusy(Fail)"},
		{"no place kept", lock(asynqmw.WithPlaceKept(0)), "WithPlaceKept"},
		{"a place kept too long", lock(asynqmw.WithPlaceKept(25 * time.Hour)), "WithPlaceKept"},
		{"a place kept for less than the task is away", lock(asynqmw.WithPlaceKept(10 * time.Second)), "15s"},
		{"By without a kind", func() { asynqmw.By("", asynqmw.Header("a")) }, "kind"},
		{"By without parts", func() { asynqmw.By("item") }, "no parts"},
		{"By with a nil part", func() { asynqmw.By("item", nil) }, "part 1"},
		{"Payload of nothing", func() { asynqmw.Payload[order](nil) }, "Payload"},
		{"a nameless Header", func() { asynqmw.Header("") }, "Header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				got := fmt.Sprint(recover())
				if !strings.HasPrefix(got, "asynqmw: ") || !strings.Contains(got, tt.says) {
					t.Errorf("panic %q, want one of asynqmw that says %q", got, tt.says)
				}
			}()
			tt.mount()
		})
	}
}

// A syncBuffer collects a log that several goroutines write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
