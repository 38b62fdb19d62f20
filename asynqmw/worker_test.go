package asynqmw_test

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// A workerSpec configures a worker process: an asynq server with locks on one Redis.
type workerSpec struct {
	Addr        string
	Concurrency int
	Lease       time.Duration // 0: the default
	Wait        time.Duration // in a worker
	Journal     string        // the address of the journal's Redis; "": the Redis of the queue
	Schedules   bool          // it enqueues a task a second while it leads, and processes none
	Parks       bool          // tasks are woken when their lock is free; otherwise they come back at the next tick
}

// run is the main function of a worker process. It works until its orders end.
func (s workerSpec) run(orders *json.Decoder, _ *json.Encoder) error {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer rdb.Close()
	opts := []lockmw.ClientOption{lockmw.WithLogger(slog.New(slog.DiscardHandler))}
	if s.Lease > 0 {
		opts = append(opts, lockmw.WithLease(s.Lease))
	}
	locks, err := lockmw.New(rdb, opts...)
	if err != nil {
		return err
	}
	defer locks.Close()
	if s.Schedules {
		return s.schedule(orders, locks)
	}
	locked := asynqmw.WithLock(locks, byItem, nextTick, lockmw.WithWait(s.Wait))
	if s.Parks {
		locked = asynqmw.WithLock(locks, byItem)
	}
	// A process that was stopped for longer than a timeout would resend an entry whose answer has already arrived.
	work := journal{redis.NewClient(&redis.Options{Addr: cmp.Or(s.Journal, s.Addr), ReadTimeout: -1})}
	defer work.rdb.Close()
	mux := asynq.NewServeMux()
	mux.Handle("order:fulfil", locked(asynq.HandlerFunc(work.fulfil)))
	mux.Handle("order:work", locked(asynq.HandlerFunc(work.work)))
	mux.Handle("order:write", locked(asynq.HandlerFunc(work.write)))
	cfg := quickBare()
	cfg.Concurrency = s.Concurrency
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: s.Addr}, asynqmw.Configure(cfg))
	if err := server.Start(mux); err != nil {
		return err
	}
	defer server.Shutdown()
	return orders.Decode(new(any))
}

// startWorker starts a worker process. It must end when the test does.
func startWorker(t testing.TB, spec workerSpec) *redistest.Child {
	t.Helper()
	return redistest.StartChild(t, spec)
}

func TestTasksInTwoProcessesNeverOverlap(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"put back when busy": 0, "waiting in their worker": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			processAll(t, wait)
		})
	}
}

func processAll(t *testing.T, wait time.Duration) {
	const tasks, items = 400, 4
	s := redistest.Redis(t)
	q, work := newQueue(t, queueOn(s)), journal{s.NewClient(t)}
	resume := q.pause()
	for i := range tasks {
		q.fulfil(strconv.Itoa(i%items), asynq.MaxRetry(3), asynq.Retention(time.Hour))
	}
	for range 2 {
		startWorker(t, workerSpec{Addr: s.Addr(), Concurrency: 8, Wait: wait})
	}
	resume(2)
	eventually(t, func() bool {
		info, err := q.inspector.GetQueueInfo("default")
		return err == nil && info.Completed == tasks
	})
	entries := work.read(t)
	if n := checkApart(t, entries); n != tasks {
		t.Errorf("%d ran, want %d", n, tasks)
	}
	by := make(map[int]int)
	for _, e := range entries {
		by[e.Worker]++
	}
	if len(by) != 2 {
		t.Errorf("only %d processes did work", len(by))
	}
	done, err := q.inspector.ListCompletedTasks("default", asynq.PageSize(tasks))
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range done {
		if info.Retried != 0 {
			t.Errorf("task %s has spent %d retries: %s", info.ID, info.Retried, info.LastErr)
		}
	}
}
