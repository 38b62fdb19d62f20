package asynqmw_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
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
