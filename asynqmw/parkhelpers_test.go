package asynqmw_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
)

// parked is the Config of a server where no task comes back by the clock. A task that runs again was woken.
func parked(workers int) asynq.Config {
	return asynqmw.Configure(asynq.Config{
		Concurrency: workers, DelayedTaskCheckInterval: 24 * time.Hour, ShutdownTimeout: 100 * time.Millisecond, Logger: silent{},
	})
}

// blind hides from a client which locks have parked tasks.
func blind(_ context.Context, cmds []redis.Cmder, send func() error) error {
	if isLook(cmds) {
		return errors.New("lists are hidden")
	}
	return send()
}

// isParked reports whether a task is parked.
func (q *queue) isParked(id string) bool {
	info, err := q.inspector.GetTaskInfo("default", id)
	return err == nil && info.State == asynq.TaskStateRetry && strings.HasPrefix(info.LastErr, "asynqmw: parked:")
}

func (q *queue) awaitParked(ids ...string) {
	q.t.Helper()
	for _, id := range ids {
		eventually(q.t, func() bool {
			info, err := q.inspector.GetTaskInfo("default", id)
			if err == nil {
				q.tryAgain(info)
			}
			return q.isParked(id)
		})
	}
}

// awaitDone waits until tasks are completed, and checks that none has spent a retry, unless Redis did not answer.
func (q *queue) awaitDone(ids ...string) {
	q.t.Helper()
	for _, id := range ids {
		if info := q.await(id, asynq.TaskStateCompleted); info.Retried > q.outages[id] {
			q.t.Errorf("task %s has spent %d retries", id, info.Retried)
		}
	}
}

// nothingParked waits until no list is left.
func nothingParked(t testing.TB, rdb *redis.Client) {
	t.Helper()
	eventually(t, func() bool {
		n, err := rdb.Exists(context.Background(), "asynq:{default}:lockmw:locks").Result()
		return err == nil && n == 0
	})
}

// attempts counts how often tasks were tried.
type attempts struct{ all, busy atomic.Int64 }

func (a *attempts) count(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := next.ProcessTask(ctx, task)
		a.all.Add(1)
		if asynqmw.IsBusy(err) {
			a.busy.Add(1)
		}
		return err
	})
}

// A blockade is a handler that reports each task and blocks it until letGo.
type blockade struct {
	come  chan string
	doors sync.Map // item to channel
}

func newBlockade() *blockade { return &blockade{come: make(chan string, 10)} }

func (b *blockade) door(item string) chan struct{} {
	door, _ := b.doors.LoadOrStore(item, make(chan struct{}))
	return door.(chan struct{})
}

func (b *blockade) ProcessTask(ctx context.Context, task *asynq.Task) error {
	e, err := begin(ctx, task)
	if err != nil {
		return err
	}
	b.come <- e.Item
	<-b.door(e.Item)
	return nil
}

// comes waits for tasks of items, in any order.
func (b *blockade) comes(t *testing.T, items ...string) {
	t.Helper()
	var got []string
	for range items {
		got = append(got, receive(t, b.come))
	}
	slices.Sort(got)
	if !slices.Equal(got, items) {
		t.Fatalf("%v have come, want %v", got, items)
	}
}

func (b *blockade) letGo(items ...string) {
	for _, item := range items {
		close(b.door(item))
	}
}

// runAgain runs a parked task as if it had come back by the clock, and returns its state afterwards.
func (q *queue) runAgain(id string, tried *attempts) *asynq.TaskInfo {
	q.t.Helper()
	before := int64(0)
	eventually(q.t, func() bool {
		before = tried.all.Load()
		return q.isParked(id) && q.inspector.RunTask("default", id) == nil // unless it was woken
	})
	eventually(q.t, func() bool { return tried.all.Load() > before })
	return q.await(id, asynq.TaskStateRetry)
}
