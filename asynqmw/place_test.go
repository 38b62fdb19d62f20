package asynqmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A task that is put back stays ahead of a request that came later. The request gets the lock only while the task is not in a
// worker.
func TestAFairLockKeepsThePlaceOfATaskThatIsPutBack(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	fair := fairlock.New(usertest.Client(t, s))
	q := newQueue(t, queueOn(s))
	occupied := usertest.Occupy(t, fair, "item:7")

	away, ran := make(chan struct{}, 10), make(chan string, 10)
	waits := make(chan int, 10)
	observed := lockmw.WithObserver(&lockmw.Observer{
		Contended: func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { waits <- c.Position },
		Failed:    func(context.Context, lockmw.Attempt, error) { away <- struct{}{} },
	})
	kept := asynqmw.WithPlaceKept(3 * time.Hour)
	keeps := func(opts ...asynqmw.Option) asynq.Handler {
		return asynqmw.WithLock(fair, byItem, append(opts, kept, observed, asynqmw.WithRequeueDelay(time.Hour, time.Hour))...)(handle(func(context.Context) error {
			ran <- "task"
			return nil
		}))
	}
	shutdown := startServer(t, queueOn(s), quick(), keeps(lockmw.WithWait(0)))
	id := q.fulfil("7")
	receive(t, away)
	q.await(id, asynq.TaskStateRetry)
	shutdown()

	// Two requests wait behind the task. The first one gets the lock while the task is not in a worker. They belong to two
	// processes, because one process could pass the lock on to its second call before it learns of the task.
	first, second := enqueue(t, fair, "item:7"), enqueue(t, fairlock.New(usertest.Client(t, s)), "item:7")
	if a, b := receive(t, first.position), receive(t, second.position); a != 1 || b != 2 {
		t.Errorf("positions %d and %d, want 1 and 2: the task is not in a worker", a, b)
	}
	occupied()
	release := receive(t, first.granted)

	// The task comes back, to another server.
	startServer(t, queueOn(s), quick(), keeps(lockmw.WithWait(time.Minute)))
	if err := q.inspector.RunTask("default", id); err != nil {
		t.Fatal(err)
	}
	if position := receive(t, waits); position != 1 {
		t.Errorf("the task is at position %d, want 1", position)
	}
	release()
	q.await(id, asynq.TaskStateCompleted)
	receive(t, ran)
	receive(t, second.granted)()
}

// A request waits for a lock.
type request struct {
	position chan int
	granted  chan func() // releases it
}

// enqueue starts a request, and returns when it is queued.
func enqueue(t *testing.T, l lockmw.Locker, key string) request {
	t.Helper()
	r := request{make(chan int, 1), make(chan func(), 1)}
	standing := make(chan struct{})
	observed := lockmw.WithObserver(&lockmw.Observer{
		Contended: func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) {
			r.position <- c.Position
			close(standing)
		},
	})
	go func() {
		_, hold, err := l.Lock(t.Context(), key, lockmw.WithWait(time.Minute), observed)
		if err != nil {
			t.Error(err)
			r.granted <- func() {}
			return
		}
		r.granted <- func() {
			usertest.Unlock(t, hold)
		}
	}()
	receive(t, standing)
	return r
}

func TestAPlainLockKeepsNoPlace(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	reported := make(chan error, 10)
	cfg := quickBare()
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { reported <- err })
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	plain := lockmw.LockerFunc(usertest.Client(t, s).Lock) // WithLock cannot see that it is a plain lock
	h := asynqmw.WithLock(plain, byItem, asynqmw.WithPlaceKept(time.Minute))(never(t))
	q := startQueueOn(t, queueOn(s), asynqmw.Configure(cfg), h)
	q.await(q.fulfil("7", asynq.MaxRetry(1)), asynq.TaskStateArchived)
	for range 2 {
		if err := receive(t, reported); !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("the attempt failed with %v", err)
		}
	}
}

// A producer may choose the ID and the headers of a task. They do not give it the place of another task.
func TestATaskThatClaimsToBeACopyHasAPlaceOfItsOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	var log usertest.Output
	fair := fairlock.New(usertest.Client(t, s, lockmw.WithLogger(log.Logger())))
	q := newQueue(t, queueOn(s))
	release := usertest.Occupy(t, fair, "item:7")

	// The victim is put back, and a request waits behind it.
	away, waits := make(chan struct{}, 1), make(chan int, 1)
	kept := asynqmw.WithPlaceKept(3 * time.Hour)
	victim := asynqmw.WithLock(fair, byItem, kept, lockmw.WithWait(0), asynqmw.WithRequeueDelay(time.Hour, time.Hour),
		lockmw.WithObserver(&lockmw.Observer{Failed: func(context.Context, lockmw.Attempt, error) { away <- struct{}{} }}))
	shutdown := startServer(t, queueOn(s), quick(), victim(never(t)))
	q.fulfil("7", asynq.TaskID("victim"))
	receive(t, away)
	q.await("victim", asynq.TaskStateRetry)
	shutdown()
	request := enqueue(t, fair, "item:7")
	receive(t, request.position)

	forger := asynqmw.WithLock(fair, byItem, kept, lockmw.WithWait(time.Minute),
		lockmw.WithObserver(&lockmw.Observer{Contended: func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) { waits <- c.Position }}))
	startServer(t, queueOn(s), quick(), forger(handle(func(context.Context) error { return nil })))
	const mark = "1-ABCDEFGH"
	q.enqueue(asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"7"}`), map[string]string{"lockmw-rescued": mark}), asynq.TaskID("victim~"+mark), asynq.Retention(time.Hour))
	if position := receive(t, waits); position != 2 {
		t.Errorf("the task is at position %d, want 2: the place before the request is the victim's", position)
	}
	release()
	receive(t, request.granted)()
	q.await("victim~"+mark, asynq.TaskStateCompleted)
	if !strings.Contains(log.String(), "claims to be a copy") {
		t.Errorf("the log is %s", log.String())
	}
}
