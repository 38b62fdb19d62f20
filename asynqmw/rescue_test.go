package asynqmw_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// lastAttempt is for tasks whose only attempt ends soon.
var lastAttempt = []asynq.Option{asynq.MaxRetry(0), asynq.Timeout(2 * time.Second)}

func TestATaskWhoseLastAttemptIsBusyIsRescued(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		local := lockmw.NewLocal()
		release := usertest.Occupy(t, local, "item:7")
		client := asynq.NewClient(redis)
		t.Cleanup(func() { client.Close() })
		cfg := quickBare()
		cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) {
			t.Errorf("ErrorHandler got %v", err)
		})
		ran := make(chan *asynq.Task, 10)
		rescue, delay := asynqmw.WithRescue(client, asynq.Retention(time.Hour)), asynqmw.WithRequeueDelay(time.Hour, time.Hour)
		h := asynqmw.WithLock(local, byItem, delay, rescue)(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			ran <- task
			return nil
		}))
		q := startQueueOn(t, redis, asynqmw.Configure(cfg), h)
		task := asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"7"}`), map[string]string{"tenant": "t1"})
		id := q.enqueue(task, asynq.MaxRetry(0), asynq.Timeout(time.Hour)) // it does not wait for the timeout
		first := q.awaitCopy(id, 1, asynq.TaskStateScheduled)
		if first.MaxRetry != 0 || first.Timeout != time.Hour || first.Retention != time.Hour {
			t.Errorf("the copy has %d retries, timeout %v, retention %v", first.MaxRetry, first.Timeout, first.Retention)
		}
		run := func(copied *asynq.TaskInfo) {
			t.Helper()
			if err := q.inspector.RunTask("default", copied.ID); err != nil {
				t.Fatal(err)
			}
		}
		run(first) // immediately, not by the clock
		second := q.awaitCopy(id, 2, asynq.TaskStateScheduled)
		for _, gone := range []string{id, first.ID} {
			eventually(t, func() bool {
				_, err := q.inspector.GetTaskInfo("default", gone)
				return errors.Is(err, asynq.ErrTaskNotFound)
			})
		}
		release()
		run(second)
		q.awaitCopy(id, 2, asynq.TaskStateCompleted)
		got := receive(t, ran)
		if string(got.Payload()) != `{"Item":"7"}` || got.Type() != "order:fulfil" || got.Headers()["tenant"] != "t1" {
			t.Errorf("the copy is %s %s %v", got.Type(), got.Payload(), got.Headers())
		}
		if len(ran) > 0 {
			t.Error("the task ran more than once")
		}
	})
}

func TestATaskIsArchivedWithoutARescueOrIfItFails(t *testing.T) {
	for name, tt := range map[string]struct {
		opts []asynqmw.Option
		gone bool // asynq's Redis does not take the copy
		copy int  // the number of the copy that is archived
		says []string
	}{
		"the limit is reached": {opts: []asynqmw.Option{asynqmw.WithMaxRequeues(1)}, copy: 1, says: []string{"queued again 1 times"}},
		"the client is closed": {gone: true, says: []string{"waited for its lock", "the copy could not be enqueued", "closed"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
				local := lockmw.NewLocal()
				usertest.Occupy(t, local, "item:7")
				client := asynq.NewClient(redis)
				if tt.gone {
					client.Close()
				} else {
					t.Cleanup(func() { client.Close() })
				}
				opts := append(slices.Clip(tt.opts), nextTick, asynqmw.WithRescue(client))
				q := startQueueOn(t, redis, quick(), asynqmw.WithLock(local, byItem, opts...)(never(t)))
				id := q.fulfil("7", lastAttempt...)
				var info *asynq.TaskInfo
				if tt.copy > 0 {
					info = q.awaitCopy(id, tt.copy, asynq.TaskStateArchived)
				} else {
					info = q.await(id, asynq.TaskStateArchived)
				}
				for _, text := range tt.says {
					if !strings.Contains(info.LastErr, text) {
						t.Errorf("last error %q, want %q in it", info.LastErr, text)
					}
				}
			})
		})
	}
}

// A task whose ID an earlier task had, of which a copy remains, is not confused with that task.
func TestATaskIsRescuedWhoseIDWasUsedBefore(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		local := lockmw.NewLocal()
		client := asynq.NewClient(redis)
		t.Cleanup(func() { client.Close() })
		var ran atomic.Int32
		h := asynqmw.WithLock(local, byItem, nextTick, asynqmw.WithRescue(client, asynq.Retention(time.Hour)))(handle(func(context.Context) error {
			ran.Add(1)
			return nil
		}))
		q := startQueueOn(t, redis, quick(), h)
		for n := range int32(2) {
			release := usertest.Occupy(t, local, "item:7")
			q.fulfil("7", append(slices.Clip(lastAttempt), asynq.TaskID("nightly"))...)
			eventually(t, func() bool {
				_, err := q.inspector.GetTaskInfo("default", "nightly")
				return errors.Is(err, asynq.ErrTaskNotFound)
			})
			release()
			eventually(t, func() bool { return ran.Load() == n+1 })
		}
	})
}

func TestACopyHasTheQueueAndTheTimeoutOfItsTask(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		local := lockmw.NewLocal()
		usertest.Occupy(t, local, "item:7")
		client := asynq.NewClient(redis)
		t.Cleanup(func() { client.Close() })
		slowKey := func(ctx context.Context, task *asynq.Task) (string, error) {
			<-time.After(1200 * time.Millisecond) // of the task's time
			return byItem(ctx, task)
		}
		cfg := quickBare()
		cfg.Queues = map[string]int{"urgent": 1}
		delay := asynqmw.WithRequeueDelay(time.Hour, time.Hour)
		q := startQueueOn(t, redis, asynqmw.Configure(cfg), asynqmw.WithLock(local, slowKey, delay, asynqmw.WithRescue(client))(never(t)))
		q.fulfil("7", asynq.MaxRetry(0), asynq.Timeout(4*time.Second), asynq.Queue("urgent"))
		eventually(t, func() bool {
			tasks, err := q.inspector.ListScheduledTasks("urgent")
			if err != nil || len(tasks) == 0 {
				return false
			}
			if tasks[0].Timeout != 4*time.Second {
				t.Errorf("the copy's timeout is %v", tasks[0].Timeout)
			}
			return true
		})
	})
}

// The wait begins with the whole timeout of the last attempt.
func TestATaskThatCannotBeRescuedWaitsForItsLock(t *testing.T) {
	log := usertest.DefaultLog(t)

	local := lockmw.NewLocal()
	release := usertest.Occupy(t, local, "item:7")
	var calls atomic.Int32
	l := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		if calls.Add(1) == 2 {
			if p, err := lockmw.NewPolicy(opts...); err != nil || p.Wait < 50*time.Minute || p.Wait > time.Hour-time.Second {
				t.Errorf("it waits %v, %v", p.Wait, err)
			}
			release()
		}
		return local.Lock(ctx, key, opts...)
	})
	redis := startRedis(t)
	client := asynq.NewClient(redis)
	client.Close()
	q := startQueueOn(t, redis, quick(), asynqmw.WithLock(l, byItem, asynqmw.WithRescue(client))(handle(func(context.Context) error { return nil })))
	info := q.await(q.fulfil("7", asynq.MaxRetry(0), asynq.Timeout(time.Hour)), asynq.TaskStateCompleted, asynq.TaskStateArchived)
	if info.State != asynq.TaskStateCompleted {
		t.Errorf("the task is %v: %s", info.State, info.LastErr)
	}
	if text := log.String(); strings.Count(text, `level=WARN msg="asynqmw: `) != 1 || !strings.Contains(text, "the copy could not be enqueued") {
		t.Errorf("logged: %s", text)
	}
}
