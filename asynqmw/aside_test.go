package asynqmw_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Tasks of a busy key leave workers to other tasks, and run when the key is free. None is archived or counted as failed.
func TestAHotKeyLeavesWorkersToOthers(t *testing.T) {
	const hot, others = 8, 20
	rescued := func(q *queue) []asynqmw.Option { return []asynqmw.Option{asynqmw.WithRescue(q.client)} }
	byClock := func(*queue) []asynqmw.Option { return []asynqmw.Option{asynqmw.WithRequeueDelay(0, time.Second)} }
	placeKept := func(*queue) []asynqmw.Option {
		return []asynqmw.Option{asynqmw.WithRequeueDelay(0, time.Second), asynqmw.WithPlaceKept(time.Minute)}
	}
	for name, tt := range map[string]struct {
		workers, maxRetry int
		fair              bool
		opts              func(*queue) []asynqmw.Option
		waiting           int // how many tasks of the key may occupy a worker for long
	}{
		"on their last attempt":                            {workers: 4, waiting: 2},
		"on their last attempt, with one worker":           {workers: 1},
		"on their last attempt, by the clock":              {workers: 4, waiting: 2, opts: byClock},
		"on their last attempt, with WithRescue":           {workers: 4, opts: rescued},
		"on their last attempt, with a place that is kept": {workers: 4, waiting: 2, fair: true, opts: placeKept},
		"with a place that is kept":                        {workers: 4, waiting: 2, maxRetry: 3, fair: true, opts: placeKept},
		"parked":                                           {workers: 4, maxRetry: 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
				s := redis.(pipedRedis).s
				q, rdb := newQueue(t, redis), s.NewClient(t)
				var l lockmw.Locker = usertest.Client(t, s)
				if tt.fair {
					l = fairlock.New(usertest.Client(t, s))
				}
				release := usertest.Occupy(t, l, "item:7")
				var opts []asynqmw.Option
				if tt.opts != nil {
					opts = tt.opts(q)
				}
				cfg := quickBare()
				cfg.Concurrency = tt.workers
				resume := q.pause()
				var ids, free []string
				for range hot {
					ids = append(ids, q.fulfil("7", asynq.MaxRetry(tt.maxRetry), asynq.Timeout(time.Hour)))
				}
				for i := range others {
					free = append(free, q.fulfil("other"+strconv.Itoa(i), asynq.Timeout(time.Hour)))
				}
				startServer(t, redis, asynqmw.Configure(cfg), asynqmw.WithLock(l, byItem, opts...)(handle(func(context.Context) error { return nil })))
				began := time.Now()
				resume(1)
				q.awaitDone(free...)
				if passed := time.Since(began); passed > 15*time.Second {
					t.Errorf("the others took %v", passed)
				}
				<-time.After(3 * time.Second) // the key stays busy
				if info, err := q.inspector.GetQueueInfo("default"); err != nil || info.Active > tt.waiting+1 {
					t.Errorf("%d workers are occupied, %v", info.Active, err)
				}
				release()
				q.awaitDone(ids...)
				if info, err := q.inspector.GetQueueInfo("default"); err != nil || info.Failed+info.FailedTotal != 0 || info.Processed != hot+others || info.ProcessedTotal != hot+others {
					t.Errorf("%+v %v", info, err)
				}
				nothingParked(t, rdb)
			})
		})
	}
}

// A task that is set aside on its last attempt is the same task when it comes back.
func TestARescuedTaskKeepsItsOptions(t *testing.T) {
	hour := asynqmw.WithRequeueDelay(time.Hour, time.Hour)
	for name, tt := range map[string]struct {
		bare bool // a server without Configure
		opts []asynqmw.Option
	}{
		"parked":                        {},
		"by the clock":                  {opts: []asynqmw.Option{hour}},
		"on a server without Configure": {bare: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Each(t, func(t *testing.T, s *redistest.Server) {
				t.Parallel()
				q, locks := newQueue(t, queueOn(s)), usertest.Client(t, s)
				release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
				cfg := quickBare()
				if !tt.bare {
					cfg = asynqmw.Configure(cfg)
				}
				var ran atomic.Int32
				opts := append(slices.Clip(tt.opts), asynqmw.WithRescue(q.client))
				startServer(t, queueOn(s), cfg, asynqmw.WithLock(locks, byItem, opts...)(handle(func(context.Context) error {
					ran.Add(1)
					return nil
				})))
				until := time.Now().Add(2 * time.Hour).Truncate(time.Second)
				task := asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"7"}`), map[string]string{"tenant": "t1"})
				how := []asynq.Option{
					asynq.MaxRetry(0), asynq.Unique(time.Hour), asynq.TaskID("nightly"), asynq.Retention(time.Hour),
					asynq.Timeout(time.Minute), asynq.Deadline(until),
				}
				q.enqueue(task, how...)
				aside := q.await("nightly", asynq.TaskStateRetry)
				if aside.Retried != 0 || aside.MaxRetry != 0 || aside.Retention != time.Hour || aside.Timeout != time.Minute || !aside.Deadline.Equal(until) || aside.Headers["tenant"] != "t1" {
					t.Errorf("set aside: %+v", aside)
				}
				if _, err := q.client.Enqueue(task, asynq.MaxRetry(0), asynq.Unique(time.Hour)); !errors.Is(err, asynq.ErrDuplicateTask) {
					t.Errorf("a task like it is enqueued in the meantime: %v", err)
				}
				if _, err := q.client.Enqueue(fulfilItem("8"), asynq.TaskID("nightly")); !errors.Is(err, asynq.ErrTaskIDConflict) {
					t.Errorf("a task with its ID is enqueued in the meantime: %v", err)
				}
				release()
				eventually(t, func() bool {
					info, err := q.inspector.GetTaskInfo("default", "nightly")
					if err == nil && info.State == asynq.TaskStateRetry {
						_ = q.inspector.RunTask("default", "nightly") // immediately, not by the clock
					}
					return err == nil && info.State == asynq.TaskStateCompleted
				})
				if n := ran.Load(); n != 1 {
					t.Errorf("it ran %d times", n)
				}
				if _, err := q.client.Enqueue(task, asynq.MaxRetry(0), asynq.Unique(time.Hour)); err != nil {
					t.Errorf("after it is completed, a task like it is refused: %v", err)
				}
			})
		})
	}
}
