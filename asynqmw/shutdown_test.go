package asynqmw_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestAShutdownPutsTasksBackThatWait(t *testing.T) {
	t.Parallel()
	for name, maxRetry := range map[string]int{"in their worker": 5, "on their last attempt": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Redis(t)
			q, locks := newQueue(t, queueOn(s)), usertest.Client(t, s)
			release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
			opts := []asynqmw.Option{lockmw.WithWait(time.Hour), asynqmw.WithRescue(q.client)}
			shutdown := startServer(t, queueOn(s), quick(), asynqmw.WithLock(locks, byItem, opts...)(never(t)))
			first, second := q.fulfil("7", asynq.MaxRetry(maxRetry)), q.fulfil("7", asynq.MaxRetry(maxRetry))
			waiters := waitersOf(t, s, "item:7")
			q.await(first, asynq.TaskStateActive)
			q.await(second, asynq.TaskStateActive)
			eventually(t, func() bool { return waiters() > 0 })
			shutdown()
			for _, id := range []string{first, second} {
				if info := q.await(id, asynq.TaskStatePending, asynq.TaskStateRetry, asynq.TaskStateArchived); info.State != asynq.TaskStatePending || info.Retried != 0 {
					t.Errorf("the task is %v, %d retries spent: %s", info.State, info.Retried, info.LastErr)
				}
			}
			eventually(t, func() bool { return waiters() == 0 })
			release()
			startServer(t, queueOn(s), quick(), asynqmw.WithLock(locks, byItem, opts...)(handle(func(context.Context) error { return nil })))
			q.await(first, asynq.TaskStateCompleted)
			q.await(second, asynq.TaskStateCompleted)
		})
	}
}

// waitersOf returns a function that counts the calls that wait for key.
func waitersOf(t *testing.T, s *redistest.Server, key string) func() int {
	t.Helper()
	inspector := usertest.Inspector(t, s.NewClient(t))
	return func() int {
		status, err := inspector.Get(t.Context(), key)
		if err != nil {
			t.Error(err)
		}
		return len(status.Waiters)
	}
}

func TestAShutdownReleasesTheLocksOfTasks(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	q, locks := newQueue(t, queueOn(s)), usertest.Client(t, s)
	started := make(chan struct{})
	shutdown := startServer(t, queueOn(s), quick(), asynqmw.WithLock(locks, byItem)(handle(func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})))
	id := q.fulfil("7")
	receive(t, started)
	shutdown()
	if info := q.await(id, asynq.TaskStatePending, asynq.TaskStateRetry); info.State != asynq.TaskStatePending || info.Retried != 0 {
		t.Errorf("the task is %v, %d retries spent: %s", info.State, info.Retried, info.LastErr)
	}
	eventually(t, func() bool { return usertest.IsFree(locks, "item:7") })
}

// asynq puts the task back without waiting for its handler, and the next server gets it immediately.
func TestAHandlerThatOutlivesItsServerKeepsItsLock(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	q, locks := newQueue(t, queueOn(s)), usertest.Client(t, s)
	started, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(goOn)
	shutdown := startServer(t, queueOn(s), quick(), asynqmw.WithLock(locks, byItem)(handle(func(context.Context) error {
		defer close(left)
		close(started)
		<-leave // whatever happens to its context
		return nil
	})))
	id := q.fulfil("7")
	receive(t, started)
	shutdown()
	if usertest.IsFree(usertest.Client(t, s), "item:7") {
		t.Error("the lock is free while the handler still works")
	}
	var busy atomic.Int32
	counts := lockmw.WithObserver(&lockmw.Observer{
		Failed: func(context.Context, lockmw.Attempt, error) { busy.Add(1) },
	})
	startServer(t, queueOn(s), quick(), asynqmw.WithLock(locks, byItem, nextTick, counts)(handle(func(context.Context) error {
		select {
		case <-left:
		default:
			t.Error("the task runs while its first handler still works")
		}
		return nil
	})))
	eventually(t, func() bool { return busy.Load() > 2 })
	goOn()
	if info := q.await(id, asynq.TaskStateCompleted); info.Retried != 0 {
		t.Errorf("%d retries spent", info.Retried)
	}
}

// closed is a Locker whose Client is closed.
var closed = lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: lockmw.ErrClosed}
})

// A closed Client is not the task's failure, and its lock may be free.
func TestActionsForATaskWhoseLockerIsClosed(t *testing.T) {
	for name, tt := range map[string]struct {
		bare    bool // a server without Configure
		opts    []asynqmw.Option
		retried int
	}{
		"it is put back":             {opts: []asynqmw.Option{asynqmw.WithRequeueDelay(time.Hour, time.Hour)}},
		"Drop does not drop it":      {opts: []asynqmw.Option{asynqmw.WithOnBusy(asynqmw.Drop)}, retried: 1},
		"Fail fails it":              {opts: []asynqmw.Option{asynqmw.WithOnBusy(asynqmw.Fail)}, retried: 1},
		"Archive does not":           {opts: []asynqmw.Option{asynqmw.WithOnBusy(asynqmw.Archive)}, retried: 1},
		"a server without Configure": {bare: true, retried: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := quickBare()
			cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return time.Hour }
			var reported atomic.Int32
			cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { reported.Add(1) })
			if !tt.bare {
				cfg = asynqmw.Configure(cfg)
			}
			q := startQueue(t, cfg, asynqmw.WithLock(closed, byItem, tt.opts...)(never(t)))
			info := q.await(q.fulfil("7"), asynq.TaskStateRetry, asynq.TaskStateArchived)
			if info.State != asynq.TaskStateRetry || info.Retried != tt.retried || int(reported.Load()) != tt.retried {
				t.Errorf("the task is %v, %d retries spent, ErrorHandler called %d times; want %d", info.State, info.Retried, reported.Load(), tt.retried)
			}
		})
	}
}

func TestWithMaxRequeuesCountsNoAttemptOfAClosedLocker(t *testing.T) {
	t.Parallel()
	put := outcomes{make(chan bool, 100), asynqmw.WithLock(closed, byItem, nextTick, asynqmw.WithMaxRequeues(1))(never(t))}
	startQueue(t, quick(), put).fulfil("7", asynq.MaxRetry(1))
	for i, busy := range put.next(t, 4) {
		if !busy {
			t.Errorf("attempt %d spent a retry", i+1)
		}
	}
}

func TestCloseSendsTasksThatWaitToAnotherServer(t *testing.T) {
	t.Parallel()
	for name, maxRetry := range map[string]int{"put back": 5, "on their last attempt": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Redis(t)
			q, locks := newQueue(t, queueOn(s)), usertest.Client(t, s)
			release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
			opts := []asynqmw.Option{lockmw.WithWait(time.Hour), nextTick, asynqmw.WithRescue(q.client, asynq.Retention(time.Hour))}
			put := outcomes{make(chan bool, 1000), asynqmw.WithLock(locks, byItem, opts...)(never(t))}
			cfg := quick()
			cfg.ShutdownTimeout = time.Minute // asynq puts a task back by itself if it cuts it off
			shutdown := startServer(t, queueOn(s), cfg, put)
			for range 2 {
				q.fulfil("7", asynq.MaxRetry(maxRetry))
			}
			waiters := waitersOf(t, s, "item:7")
			eventually(t, func() bool {
				info, err := q.inspector.GetQueueInfo("default")
				return err == nil && info.Active == 2 && waiters() > 0
			})
			if err := locks.Close(); err != nil {
				t.Error(err)
			}
			put.next(t, 2)
			shutdown()
			release()
			startServer(t, queueOn(s), quick(), asynqmw.WithLock(usertest.Client(t, s), byItem, opts...)(handle(func(context.Context) error { return nil })))
			var info *asynq.QueueInfo
			eventually(t, func() bool { // asynq archives the last attempts, until asynqmw restores them
				var err error
				info, err = q.inspector.GetQueueInfo("default")
				return err == nil && info.Completed == 2
			})
			if info.Failed > 0 {
				t.Errorf("%d attempts failed", info.Failed)
			}
		})
	}
}

func TestAClosedClientIsWarnedAboutOnceInItsLog(t *testing.T) {
	var log usertest.Output
	rdb := redis.NewClient(&redis.Options{}) // no command is sent
	defer rdb.Close()
	c := usertest.ClientOf(t, rdb, lockmw.WithLogger(log.Logger()))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, l := range []lockmw.Locker{c, fairlock.New(c), rwlock.New(c), rwlock.New(c).RLocker()} {
		before := strings.Count(log.String(), "level=WARN")
		h := asynqmw.WithLock(l, byItem)(never(t))
		for range 2 {
			if err := h.ProcessTask(t.Context(), fulfilItem("7")); !asynqmw.IsBusy(err) || !errors.Is(err, lockmw.ErrClosed) {
				t.Errorf("%T: %v", l, err)
			}
		}
		if n := strings.Count(log.String(), "level=WARN") - before; n != 1 || !strings.Contains(log.String(), "lockmw.Client was closed before the asynq server") {
			t.Errorf("%T: %d warnings, want one: %s", l, n, log.String())
		}
	}
}
