package asynqmw_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// An effort counts the calls of one attempt until the task had its lock or was put back.
type effort struct {
	locks, scripts atomic.Int32 // calls for the lock, and scripts run in the queue
	busy           bool         // it was put back
}

type effortKey struct{}

// An effortCounter records the effort of attempts. It counts calls for locks with an Observer, and scripts with a hook of the client.
type effortCounter struct {
	scripts atomic.Int32 // all that ran in the queue, in attempts and for them

	mu  sync.Mutex
	all []*effort
}

func (c *effortCounter) count(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		e := &effort{}
		err := next.ProcessTask(context.WithValue(ctx, effortKey{}, e), task)
		e.busy = asynqmw.IsBusy(err)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, e)
		return err
	})
}

func (*effortCounter) observer() lockmw.Option {
	return lockmw.WithObserver(&lockmw.Observer{Start: func(ctx context.Context, _ lockmw.Attempt) context.Context {
		if e, ok := ctx.Value(effortKey{}).(*effort); ok {
			e.locks.Add(1)
		}
		return ctx
	}})
}

// hook counts the scripts that touch asynq's keys.
func (c *effortCounter) hook(ctx context.Context, cmds []redis.Cmder, send func() error) error {
	if isInQueue(cmds) && !isLook(cmds) {
		c.scripts.Add(1)
		if e, ok := ctx.Value(effortKey{}).(*effort); ok {
			e.scripts.Add(1)
		}
	}
	return send()
}

// isInQueue reports whether a script runs that touches asynq's keys.
func isInQueue(cmds []redis.Cmder) bool {
	return cmds[0].Name() == "evalsha" && slices.ContainsFunc(cmds[0].Args(), func(arg any) bool {
		key, _ := arg.(string)
		return strings.HasPrefix(key, "asynq:{")
	})
}

// isOfLock reports whether a command runs a script on a lock.
func isOfLock(cmds []redis.Cmder) bool { return cmds[0].Name() == "evalsha" && !isInQueue(cmds) }

// A task that this server parked runs no script when it comes back. A task that another server parked, or the first one to wait,
// calls for the lock once more, to wait in its worker.
//
// One script parks a task, and one script wakes the next task when the lock is taken. A third script is needed only if no task was
// on its way when the lock was released.
func TestATaskThatMeetsABusyLockCallsForItOnceAndRunsFewScripts(t *testing.T) {
	const tasks = 60
	for _, servers := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d servers", servers), func(t *testing.T) {
			inBubble(t, func(t *testing.T, queues asynq.RedisConnOpt) {
				q, c := newQueue(t, queues), &effortCounter{}
				resume := q.pause()
				var ids []string
				for range tasks {
					ids = append(ids, q.fulfil("7"))
				}
				var shutdowns []func()
				for range servers {
					shutdowns = append(shutdowns, c.serve(t, queues, 8/servers, handle(func(context.Context) error {
						<-time.After(10 * time.Millisecond) // the work
						return nil
					})))
				}
				resume(servers)
				q.awaitDone(ids...)
				for _, shutdown := range shutdowns {
					shutdown()
				}
				again := 0
				for _, e := range c.all {
					locks, scripts := int(e.locks.Load()), int(e.scripts.Load())
					if e.busy && (locks != 1 || scripts != 1) || !e.busy && (locks != 1+scripts || scripts > 1) {
						t.Errorf("%d calls for the lock and %d scripts; put back: %t", locks, scripts, e.busy)
					}
					again += locks - 1
				}
				if most := tasks * (servers - 1); len(c.all) > 2*tasks || again > most {
					t.Errorf("%d attempts, %d of which called for the lock twice; want %d and %d at most", len(c.all), again, 2*tasks, most)
				}
				// In 60 runs, one server ran 119 to 121 scripts, and two ran 131 to 164: they take turns by chance.
				if n, most := int(c.scripts.Load()), tasks*(servers+1)+tasks/10; n > most {
					t.Errorf("%d scripts for %d tasks, want %d at most", n, tasks, most)
				}
			})
		})
	}
}

func TestATaskThatWaitsInItsWorkerInVainIsParkedWithoutAskingAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, queues asynq.RedisConnOpt) {
		q, c := newQueue(t, queues), &effortCounter{}
		usertest.Occupy(t, usertest.Client(t, queues.(pipedRedis).s), "item:7")
		shutdown := c.serve(t, queues, 4, never(t))
		q.awaitParked(q.fulfil("7"))
		shutdown()
		e := c.all[0] // the task may have come back by now
		if locks, scripts := e.locks.Load(), e.scripts.Load(); locks != 2 || scripts != 1 {
			t.Errorf("%d calls for the lock and %d scripts, want 2 and 1", locks, scripts)
		}
	})
}

// serve starts a server whose attempts are counted.
func (c *effortCounter) serve(t *testing.T, queues asynq.RedisConnOpt, workers int, h asynq.Handler) (shutdown func()) {
	rdb := queues.(pipedRedis).s.NewClient(t)
	rdb.AddHook(redistest.Hook(c.hook))
	return startServer(t, queues, parked(workers), c.count(asynqmw.WithLock(usertest.ClientOf(t, rdb), byItem, c.observer())(h)))
}
