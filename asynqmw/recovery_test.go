package asynqmw_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// silentFor makes asynq believe that the task's server last reported a minute ago. A server that starts immediately recovers such
// tasks.
func silentFor(t *testing.T, rdb *redis.Client, id string) {
	t.Helper()
	old := redis.Z{Score: float64(time.Now().Add(-time.Minute).Unix()), Member: id}
	if n, err := rdb.ZAddArgs(t.Context(), "asynq:{default}:lease", redis.ZAddArgs{XX: true, Ch: true, Members: []redis.Z{old}}).Result(); err != nil || n != 1 {
		t.Fatalf("asynq's lease of %s: %d, %v", id, n, err)
	}
}

// shortLease is the lease of locks whose holder dies.
const shortLease = 3 * time.Second

// endOfLease returns when the lock of key expires if it is not renewed, or a little earlier.
func endOfLease(t *testing.T, rdb *redis.Client, key string) time.Time {
	t.Helper()
	now := time.Now()
	left, err := rdb.PTTL(t.Context(), "lockmw:{"+key+"}").Result()
	if err != nil || left <= 0 {
		t.Fatalf("the lock of %s has %v left, %v", key, left, err)
	}
	return now.Add(left - 10*time.Millisecond)
}

func TestATaskOfAKilledWorkerRunsAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	q, work := newQueue(t, queueOn(s)), journal{s.NewClient(t)}
	first := startWorker(t, workerSpec{Addr: s.Addr(), Concurrency: 2, Lease: shortLease})
	id := q.enqueue(taskFor("order:write", "7"), asynq.Retention(time.Hour))
	dead := work.await(t, "started", 1)
	over := endOfLease(t, work.rdb, "item:7")
	first.Kill()
	silentFor(t, work.rdb, id)
	startWorker(t, workerSpec{Addr: s.Addr(), Concurrency: 2, Lease: shortLease})
	work.await(t, "started", 2)
	if early := time.Until(over); early > 0 {
		t.Errorf("the dead worker's lock was taken %v before its lease had expired", early)
	}
	work.letGo(t)
	if info := q.await(id, asynq.TaskStateCompleted); info.Retried != 1 {
		t.Errorf("retried %d, want 1 for the worker that died: %s", info.Retried, info.LastErr)
	}
	if n := checkApart(t, work.read(t), dead.Worker); n != 2 {
		t.Errorf("the task ran %d times, want 2", n)
	}
}

func TestAWorkerThatWasStoppedLosesItsLockAndItsWriteIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	q, work := newQueue(t, queueOn(s)), journal{s.NewClient(t)}
	first := startWorker(t, workerSpec{Addr: s.Addr(), Concurrency: 2, Lease: shortLease})
	id := q.enqueue(taskFor("order:write", "7"), asynq.Retention(time.Hour))
	stopped := work.await(t, "started", 1)
	first.Pause(t)
	silentFor(t, work.rdb, id)
	startWorker(t, workerSpec{Addr: s.Addr(), Concurrency: 2, Lease: shortLease})
	second := work.await(t, "started", 2)
	work.letGo(t)
	q.await(id, asynq.TaskStateCompleted)
	first.Resume(t)
	refused := work.await(t, "refused", 1)
	if refused.Worker != stopped.Worker || refused.Token != stopped.Token {
		t.Errorf("%+v was refused, want %+v", refused, stopped)
	}
	if !refused.Lost {
		t.Error("its context has not ended with cause ErrLost")
	}
	if written := work.await(t, "written", 1); written.Worker != second.Worker {
		t.Errorf("written by %+v, want %+v", written, second)
	}
	work.await(t, "ended", 2)
	first.End() // after it has answered asynq
	if state := q.await(id, asynq.TaskStateCompleted, asynq.TaskStateRetry, asynq.TaskStateArchived).State; state != asynq.TaskStateCompleted {
		t.Errorf("the task is %v", state)
	}
	if n := checkApart(t, work.read(t), stopped.Worker); n != 2 {
		t.Errorf("the task ran %d times, want 2", n)
	}
}

// The first server cannot reach asynq's Redis, so asynq gives its task to another one. The first handler continues and holds its
// lock.
func TestATaskThatIsDeliveredTwiceRunsOneAtATime(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"servers of one process": true, "servers of two processes": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Redis(t)
			locks := usertest.Client(t, s)
			others := locks
			if !shared {
				others = usertest.Client(t, s)
			}
			deliverTwice(t, s, locks, others)
		})
	}
}

func deliverTwice(t *testing.T, s *redistest.Server, first, second lockmw.Locker) {
	q, rdb := newQueue(t, queueOn(s)), s.NewClient(t)
	var inside, runs, busy atomic.Int32
	started, leave := make(chan struct{}, 2), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(goOn)
	h := handle(func(context.Context) error {
		if inside.Add(1) > 1 {
			t.Error("it ran twice at the same time")
		}
		defer inside.Add(-1)
		runs.Add(1)
		started <- struct{}{}
		<-leave // whatever happens to its context
		return nil
	})
	proxy := s.NewProxy(t)
	cutOff := asynq.RedisClientOpt{Addr: proxy.Addr(), DialTimeout: time.Second, ReadTimeout: time.Second}
	startServer(t, cutOff, quick(), asynqmw.WithLock(first, byItem)(h))
	id := q.fulfil("7")
	receive(t, started)
	proxy.Off()
	silentFor(t, rdb, id)
	cfg := quickBare()
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	counts := lockmw.WithObserver(&lockmw.Observer{
		Failed: func(_ context.Context, _ lockmw.Attempt, err error) {
			if !errors.Is(err, lockmw.ErrBusy) {
				t.Errorf("the second worker got %v", err)
			}
			busy.Add(1)
		},
	})
	startServer(t, queueOn(s), asynqmw.Configure(cfg), asynqmw.WithLock(second, byItem, nextTick, counts)(h))
	eventually(t, func() bool { return busy.Load() > 2 })
	if n := runs.Load(); n != 1 {
		t.Errorf("it ran %d times while the first worker was at work", n)
	}
	goOn()
	if info := q.await(id, asynq.TaskStateCompleted); info.Retried != 1 {
		t.Errorf("retried %d, want 1 for the server that was not heard of", info.Retried)
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("it ran %d times, want 2", n)
	}
	proxy.Restore()
}
