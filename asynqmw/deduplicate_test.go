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
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

type event struct{ Account, ID, Item string }

var byEvent = asynqmw.PayloadKey(func(e event) idempotency.Key { return idempotency.Key{Scope: e.Account, ID: e.ID} })

func taskOf(typename, account, id, item string) *asynq.Task {
	return asynq.NewTask(typename, []byte(`{"Account":"`+account+`","ID":"`+id+`","Item":"`+item+`"}`))
}

func fulfilEvent(id string) *asynq.Task { return taskOf("order:fulfil", "acme", id, "7") }

// hasRun is a handler that sends the number of each run.
func hasRun(runs chan<- int) asynq.Handler {
	return handle(func(ctx context.Context) error {
		runs <- idempotency.Attempt(ctx)
		return nil
	})
}

// retries is a Config without pauses between retries.
func retries() asynq.Config {
	cfg := quickBare()
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	return asynqmw.Configure(cfg)
}

// deliver processes a task outside of a server, and fails the test if that does not succeed.
func deliver(t *testing.T, h asynq.Handler, task *asynq.Task) {
	t.Helper()
	if err := h.ProcessTask(t.Context(), task); err != nil {
		t.Errorf("the task fails: %v", err)
	}
}

// ranWith fails the test unless there was one run since the last call, with that number.
func ranWith(t *testing.T, runs chan int, attempt int) {
	t.Helper()
	if len(runs) != 1 {
		t.Fatalf("the handler ran %d times, want once", len(runs))
	}
	if n := <-runs; n != attempt {
		t.Errorf("it was attempt %d, want %d", n, attempt)
	}
}

func TestARepeatedTaskSucceedsWithoutItsHandler(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		runs := make(chan int, 10)
		once := idempotency.New(usertest.Client(t, s))
		q := startQueueOn(t, queueOn(s), parked(4), asynqmw.Deduplicate(once, byEvent)(hasRun(runs)))
		for range 3 {
			q.awaitDone(q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour)))
		}
		ranWith(t, runs, 1)
	})
}

func TestOnlyTheSameWorkIsNotRepeated(t *testing.T) {
	runs := make(chan int, 10)
	h := asynqmw.Deduplicate(idempotency.New(lockmw.NewLocal()), byEvent)(hasRun(runs))
	deliver(t, h, fulfilEvent("1"))
	ranWith(t, runs, 1)
	deliver(t, h, asynq.NewTaskWithHeaders("order:fulfil", fulfilEvent("1").Payload(), map[string]string{"traceparent": "other"}))
	if len(runs) > 0 {
		t.Error("other headers make another task")
	}
	for name, task := range map[string]*asynq.Task{
		"another event":   fulfilEvent("2"),
		"another account": taskOf("order:fulfil", "emca", "1", "7"),
		"another type":    taskOf("order:mail", "acme", "1", "7"),
	} {
		t.Run(name, func(t *testing.T) {
			deliver(t, h, task)
			ranWith(t, runs, 1)
		})
	}
}

func TestDuplicatesInParallelRunOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		const events, copies = 3, 8
		q := newQueue(t, queueOn(s))
		resume := q.pause()
		var ids []string
		for range copies {
			for _, event := range []string{"1", "2", "3"} {
				ids = append(ids, q.enqueue(fulfilEvent(event), asynq.Retention(time.Hour)))
			}
		}
		var ran atomic.Int32
		h := handle(func(context.Context) error {
			ran.Add(1)
			time.Sleep(20 * time.Millisecond) // the work
			return nil
		})
		for range 2 {
			startServer(t, queueOn(s), parked(4), asynqmw.Deduplicate(idempotency.New(usertest.Client(t, s)), byEvent)(h))
		}
		resume(2)
		q.awaitDone(ids...)
		if n := ran.Load(); n != events {
			t.Errorf("%d runs for %d events", n, events)
		}
		nothingParked(t, s.NewClient(t))
	})
}

// As the server sees no lists, the end of the first run wakes a duplicate, and each duplicate the next one.
func TestADuplicateOfARunInFlightIsParked(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		began, proceed := make(chan struct{}, 2), make(chan struct{})
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Hook(blind))
		once := idempotency.New(usertest.ClientOf(t, rdb))
		q := startQueueOn(t, queueOn(s), parked(4), asynqmw.Deduplicate(once, byEvent)(handle(func(context.Context) error {
			began <- struct{}{}
			<-proceed
			return nil
		})))
		ids := []string{q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour))}
		receive(t, began)
		for range 5 {
			ids = append(ids, q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour)))
		}
		q.awaitParked(ids[1:]...)
		if info := q.await(ids[1], asynq.TaskStateRetry); !strings.Contains(info.LastErr, "the first run of this key has not finished") {
			t.Errorf("its error is %q", info.LastErr)
		}
		last := q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour), asynq.MaxRetry(0))
		q.await(last, asynq.TaskStateActive, asynq.TaskStateRetry)
		close(proceed)
		q.awaitDone(append(ids, last)...)
		if len(began) > 0 {
			t.Error("a duplicate has run")
		}
		nothingParked(t, s.NewClient(t))
	})
}

func TestAFailedTaskRunsAgain(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		runs := make(chan int, 10)
		once := idempotency.New(usertest.Client(t, s))
		q := startQueueOn(t, queueOn(s), retries(), asynqmw.Deduplicate(once, byEvent)(handle(func(ctx context.Context) error {
			runs <- idempotency.Attempt(ctx)
			switch idempotency.Attempt(ctx) {
			case 1:
				return errors.New("broken")
			case 2:
				panic("broken")
			}
			return nil
		})))
		id := q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour))
		if info := q.await(id, asynq.TaskStateCompleted, asynq.TaskStateArchived); info.State != asynq.TaskStateCompleted || info.Retried != 2 {
			t.Errorf("the task is %v after %d retries: %s", info.State, info.Retried, info.LastErr)
		}
		if a, b, c := receive(t, runs), receive(t, runs), receive(t, runs); a != 1 || b != 2 || c != 3 {
			t.Errorf("attempts %d, %d and %d", a, b, c)
		}
	})
}

func TestHowARunEnds(t *testing.T) {
	broken := errors.New("broken")
	notDone := func(err error) func(context.Context) error {
		return func(ctx context.Context) error {
			idempotency.NotDone(ctx)
			return err
		}
	}
	returns := func(err error) func(context.Context) error {
		return func(context.Context) error { return err }
	}
	for name, tt := range map[string]struct {
		first   func(context.Context) error
		err     error
		attempt int // of the second run; 0: it is a repetition
	}{
		"nil":                   {returns(nil), nil, 0},
		"an error":              {returns(broken), broken, 2},
		"SkipRetry":             {returns(asynq.SkipRetry), asynq.SkipRetry, 2},
		"RevokeTask":            {returns(asynq.RevokeTask), asynq.RevokeTask, 2},
		"a panic":               {func(context.Context) error { panic(broken) }, broken, 2},
		"NotDone and nil":       {notDone(nil), nil, 1},
		"NotDone and an error":  {notDone(broken), broken, 1},
		"NotDone and SkipRetry": {notDone(asynq.SkipRetry), asynq.SkipRetry, 1},
		"NotDone and a panic": {func(ctx context.Context) error {
			idempotency.NotDone(ctx)
			panic(broken)
		}, broken, 1},
	} {
		t.Run(name, func(t *testing.T) {
			runs, first := make(chan int, 10), true
			h := asynqmw.Deduplicate(idempotency.New(lockmw.NewLocal()), byEvent)(handle(func(ctx context.Context) error {
				if first {
					first = false
					return tt.first(ctx)
				}
				runs <- idempotency.Attempt(ctx)
				return nil
			}))
			err := func() (err error) {
				defer func() {
					if v := recover(); v != nil {
						err, _ = v.(error)
					}
				}()
				return h.ProcessTask(t.Context(), fulfilEvent("1"))
			}()
			if !errors.Is(err, tt.err) || tt.err == nil && err != nil {
				t.Errorf("the first task returns %v, want %v", err, tt.err)
			}
			deliver(t, h, fulfilEvent("1"))
			if tt.attempt > 0 {
				ranWith(t, runs, tt.attempt)
			} else if len(runs) > 0 {
				t.Error("the repetition has run")
			}
		})
	}
}

func TestALostLockDoesNotUndoTheWork(t *testing.T) {
	local, runs := lockmw.NewLocal(), make(chan int, 10)
	h := asynqmw.Deduplicate(idempotency.New(local), byEvent)(handle(func(ctx context.Context) error {
		runs <- idempotency.Attempt(ctx)
		hold, _ := lockmw.FromContext(ctx)
		local.Expire(hold.Key())
		<-ctx.Done()
		return nil
	}))
	for range 2 {
		deliver(t, h, fulfilEvent("1"))
	}
	ranWith(t, runs, 1)
}

func TestTheLabelOfARunIsTheTasksID(t *testing.T) {
	labels := make(chan string, 1)
	observed := lockmw.WithObserver(&lockmw.Observer{
		Acquired: func(ctx context.Context, a lockmw.Attempt, _ lockmw.Acquisition) context.Context {
			labels <- a.Policy.Label
			return ctx
		},
	})
	once := idempotency.New(lockmw.NewLocal(), idempotency.WithLockOptions(observed))
	q := startQueue(t, quick(), asynqmw.Deduplicate(once, byEvent)(handle(func(context.Context) error { return nil })))
	id := q.enqueue(fulfilEvent("1"))
	if label := receive(t, labels); label != id {
		t.Errorf("label %q, want %q", label, id)
	}
}

func TestDuplicatesCanBeDropped(t *testing.T) {
	began, proceed := make(chan struct{}, 2), make(chan struct{})
	once := idempotency.New(lockmw.NewLocal(), idempotency.WithWait(time.Hour)) // does not apply to tasks
	h := asynqmw.Deduplicate(once, byEvent, asynqmw.WithOnBusy(asynqmw.Drop))(handle(func(context.Context) error {
		began <- struct{}{}
		<-proceed
		return nil
	}))
	ended := make(chan error, 1)
	go func() { ended <- h.ProcessTask(context.Background(), fulfilEvent("1")) }()
	receive(t, began)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := h.ProcessTask(ctx, fulfilEvent("1")); ctx.Err() != nil || !errors.Is(err, asynq.RevokeTask) || !errors.Is(err, idempotency.ErrInFlight) {
		t.Errorf("the duplicate returns %v", err)
	}
	close(proceed)
	if err := receive(t, ended); err != nil {
		t.Error(err)
	}
}

// A server looks after the lock of the key, whoever holds it, such as a request that does the same work.
func TestADuplicateIsParkedOnTheLockOfItsKey(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	once, task := idempotency.New(usertest.ClientOf(t, rdb)), fulfilEvent("1")
	key := idempotency.Key{Scope: lockmw.Key("task", "order:fulfil", "acme"), ID: "1"}
	run, err := once.Begin(t.Context(), key, key.Fingerprint([]byte(task.Type()), task.Payload()), idempotency.RunAgain)
	if err != nil {
		t.Fatal(err)
	}
	q := startQueueOn(t, queueOn(s), parked(4), asynqmw.Deduplicate(once, byEvent)(never(t)))
	id := q.enqueue(task, asynq.Retention(time.Hour))
	q.awaitParked(id)
	locks, err := rdb.SMembers(t.Context(), "asynq:{default}:lockmw:locks").Result()
	if err != nil || len(locks) != 1 || !strings.Contains(locks[0], key.LockKey()) {
		t.Errorf("the locks of parked tasks are %v %v, want %s", locks, err, key.LockKey())
	}
	if err := run.Keep(idempotency.Answer{}); err != nil {
		t.Fatal(err)
	}
	q.awaitDone(id)
}
