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

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestATaskThatWasPutBackOftenEnoughFails(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		local := lockmw.NewLocal()
		release := usertest.Occupy(t, local, "item:7")
		cfg := quickBare()
		cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
		var attempts atomic.Int32
		var failures []string
		cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
			failures = append(failures, err.Error())
		})
		locked := asynqmw.WithLock(local, byItem, nextTick, asynqmw.WithMaxRequeues(2))(handle(func(context.Context) error {
			return errors.New("broken")
		}))
		q := startQueueOn(t, redis, asynqmw.Configure(cfg), asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			// The third attempt gets the lock, so the count restarts.
			if attempts.Add(1) == 3 {
				release()
				defer func() { usertest.Occupy(t, local, "item:7") }()
			}
			return locked.ProcessTask(ctx, task)
		}))
		// The last attempt waits.
		info := q.await(q.fulfil("7", asynq.MaxRetry(3), asynq.Timeout(5*time.Second)), asynq.TaskStateArchived)
		if n := attempts.Load(); n != 10 || info.Retried != 3 {
			t.Errorf("%d attempts, %d retries spent; want 2 busy, 1 broken, twice 2 busy and 1 too often, and the last", n, info.Retried)
		}
		if len(failures) != 4 || failures[0] != "broken" || !strings.Contains(failures[1], "2 times already") {
			t.Errorf("failures %q", failures)
		}
	})
}

// IDs are unique only within their queue.
func TestRequeuesAreCountedForEachQueue(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "item:7")
	cfg := quickBare()
	cfg.Queues = map[string]int{"a": 1, "b": 1}
	attempts := make(map[string]int)
	var mu sync.Mutex
	locked := asynqmw.WithLock(local, byItem, nextTick, asynqmw.WithMaxRequeues(3))(never(t))
	q := startQueue(t, asynqmw.Configure(cfg), asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		mu.Lock()
		defer mu.Unlock()
		name, _ := asynq.GetQueueName(ctx)
		attempts[name]++
		return locked.ProcessTask(ctx, task)
	}))
	for name := range cfg.Queues {
		q.fulfil("7", asynq.Queue(name), asynq.TaskID("x"), asynq.MaxRetry(1))
	}
	for name := range cfg.Queues {
		eventually(t, func() bool {
			info, err := q.inspector.GetTaskInfo(name, "x")
			return err == nil && info.Retried == 1
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if attempts["a"] < 4 || attempts["b"] < 4 {
		t.Errorf("attempts until a retry was spent: %v, want 4 each", attempts)
	}
}

// The cause of the retry does not matter.
func TestACountOfRequeuesRestartsWhenARetryIsSpent(t *testing.T) {
	for name, tt := range map[string]struct{ lock, key error }{
		"by an unavailable Redis": {lock: lockmw.ErrUnavailable},
		"by the key function":     {key: errors.New("database is down")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var attempts atomic.Int32
			l := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
				err := lockmw.ErrBusy
				if attempts.Load() == 3 {
					err = tt.lock
				}
				return ctx, nil, &lockmw.Error{Op: "lock", Key: key, Err: err}
			})
			key := func(context.Context, *asynq.Task) (string, error) {
				if attempts.Add(1) == 3 {
					return "item:7", tt.key
				}
				return "item:7", nil
			}
			cfg := quickBare()
			cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
			put := outcomes{make(chan bool, 100), asynqmw.WithLock(l, key, nextTick, asynqmw.WithMaxRequeues(2))(never(t))}
			startQueue(t, asynqmw.Configure(cfg), put).fulfil("7", asynq.MaxRetry(5))
			if got, want := put.next(t, 6), []bool{true, true, false, true, true, false}; !slices.Equal(got, want) {
				t.Errorf("put back: %v, want %v", got, want)
			}
		})
	}
}

func TestTheCountOfACopyRestartsWhenARetryIsSpent(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	usertest.Occupy(t, local, "item:7")
	redis := startRedis(t)
	client := asynq.NewClient(redis)
	t.Cleanup(func() { client.Close() })
	cfg := quickBare()
	cfg.Concurrency = 1 // otherwise the copy may end before the attempt that has made it
	cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
	put := outcomes{make(chan bool, 100), asynqmw.WithLock(local, byItem, nextTick, asynqmw.WithMaxRequeues(1), asynqmw.WithRescue(client, asynq.MaxRetry(2)))(never(t))}
	startQueueOn(t, redis, asynqmw.Configure(cfg), put).fulfil("7", asynq.MaxRetry(0))
	if got, want := put.next(t, 4), []bool{true, false, true, false}; !slices.Equal(got, want) {
		t.Errorf("put back: %v, want %v", got, want)
	}
}

// outcomes is a handler that reports for each attempt whether the task was put back.
type outcomes struct {
	busy chan bool
	asynq.Handler
}

func (o outcomes) ProcessTask(ctx context.Context, task *asynq.Task) error {
	err := o.Handler.ProcessTask(ctx, task)
	o.busy <- asynqmw.IsBusy(err)
	return err
}

func (o outcomes) next(t *testing.T, n int) []bool {
	t.Helper()
	busy := make([]bool, n)
	for i := range busy {
		busy[i] = receive(t, o.busy)
	}
	return busy
}
