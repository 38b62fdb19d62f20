package asynqmw_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// Several tasks have one attempt left, which finds their lock busy.
func TestContentionOnTheLastAttemptArchivesNothingThatIsRescued(t *testing.T) {
	t.Parallel()
	const tasks = 5
	for name, tt := range map[string]struct {
		maxRetry  int
		rescued   bool
		configure func(asynq.Config) asynq.Config
	}{
		"the only attempt":                     {0, true, asynqmw.Configure},
		"the last of two":                      {1, true, asynqmw.Configure},
		"on a server without Configure":        {1, true, func(cfg asynq.Config) asynq.Config { return cfg }},
		"the only attempt, without WithRescue": {0, false, asynqmw.Configure},
		"the last of two, without WithRescue":  {1, false, asynqmw.Configure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Redis(t)
			q, locks := newQueue(t, queueOn(s)), usertest.Client(t, s)
			release := usertest.Occupy(t, locks, "item:7")
			opts := []asynqmw.Option{atOnce}
			if tt.rescued {
				opts = append(opts, asynqmw.WithRescue(q.client))
			}
			ran := counter{runs: make(map[string]int)}
			locked := asynqmw.WithLock(locks, byItem, opts...)(asynq.HandlerFunc(ran.count))
			cfg := quickBare()
			cfg.RetryDelayFunc = func(int, error, *asynq.Task) time.Duration { return 0 }
			startServer(t, queueOn(s), tt.configure(cfg), asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				retried, _ := asynq.GetRetryCount(ctx)
				if most, _ := asynq.GetMaxRetry(ctx); retried < most {
					return errors.New("spends a retry")
				}
				return locked.ProcessTask(ctx, task)
			}))
			ids, timeout := make([]string, tasks), time.Hour
			if !tt.rescued {
				timeout = 3 * time.Second // for which the last attempt waits
			}
			for i := range ids {
				task := asynq.NewTaskWithHeaders("order:fulfil", []byte(`{"Item":"7"}`), map[string]string{"n": strconv.Itoa(i)})
				ids[i] = q.enqueue(task, asynq.MaxRetry(tt.maxRetry), asynq.Timeout(timeout), asynq.Retention(time.Hour))
			}
			if !tt.rescued {
				for _, id := range ids {
					q.await(id, asynq.TaskStateArchived)
				}
				return
			}
			for _, id := range ids { // each leaves its worker
				eventually(t, func() bool {
					info, err := q.inspector.GetTaskInfo("default", id)
					return err == nil && strings.HasPrefix(info.LastErr, "asynqmw: queued again:")
				})
			}
			release()
			for _, id := range ids {
				q.await(id, asynq.TaskStateCompleted)
			}
			ran.areOnce(t, tasks)
		})
	}
}

// A counter is a handler that counts how often each task ran, by its header n.
type counter struct {
	mu   sync.Mutex
	runs map[string]int
}

func (c *counter) count(_ context.Context, task *asynq.Task) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[task.Headers()["n"]]++
	return nil
}

func (c *counter) areOnce(t *testing.T, tasks int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.runs) != tasks {
		t.Errorf("%d tasks ran, want %d", len(c.runs), tasks)
	}
	for n, runs := range c.runs {
		if runs != 1 {
			t.Errorf("task %s ran %d times", n, runs)
		}
	}
}
