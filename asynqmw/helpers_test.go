package asynqmw_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// startRedis starts a Redis for asynq alone; the locks of these tests are a lockmw.Local.
func startRedis(t testing.TB) asynq.RedisConnOpt {
	server := miniredis.RunT(t)
	server.ClockTTL(true)
	return asynq.RedisClientOpt{Addr: server.Addr()}
}

// quick is the Config, from Configure, of a server that checks often for tasks.
func quick() asynq.Config { return asynqmw.Configure(quickBare()) }

// quickBare is quick without Configure.
func quickBare() asynq.Config {
	return asynq.Config{
		Concurrency:              10,
		TaskCheckInterval:        10 * time.Millisecond,
		DelayedTaskCheckInterval: 20 * time.Millisecond,
		ShutdownTimeout:          100 * time.Millisecond,
		Logger:                   silent{},
	}
}

type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}

// A queue is an asynq queue whose server processes every task with one handler.
type queue struct {
	t         testing.TB
	on        asynq.RedisConnOpt
	client    *asynq.Client
	inspector *asynq.Inspector
	outages   map[string]int // attempts of tasks, by ID, that tryAgain repeated
}

func startQueue(t *testing.T, cfg asynq.Config, h asynq.Handler) *queue {
	t.Helper()
	return startQueueOn(t, startRedis(t), cfg, h)
}

func startQueueOn(t *testing.T, redis asynq.RedisConnOpt, cfg asynq.Config, h asynq.Handler) *queue {
	t.Helper()
	q := newQueue(t, redis)
	startServer(t, redis, cfg, h)
	return q
}

// noteWhen is a handler that sends the time at which each task runs.
func noteWhen(ran chan<- time.Time) asynq.Handler {
	return handle(func(context.Context) error {
		ran <- time.Now()
		return nil
	})
}

// newQueue returns a queue without a server.
func newQueue(t testing.TB, redis asynq.RedisConnOpt) *queue {
	q := &queue{t: t, on: redis, client: asynq.NewClient(redis), inspector: asynq.NewInspector(redis), outages: make(map[string]int)}
	t.Cleanup(func() {
		q.logTasks()
		q.client.Close()
		q.inspector.Close()
	})
	return q
}

// logTasks logs where all tasks are if the test has failed.
func (q *queue) logTasks() {
	if !q.t.Failed() {
		return
	}
	for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		q.inspector.ListPendingTasks, q.inspector.ListActiveTasks, q.inspector.ListScheduledTasks,
		q.inspector.ListRetryTasks, q.inspector.ListArchivedTasks, q.inspector.ListCompletedTasks,
	} {
		tasks, err := list("default")
		if err != nil {
			q.t.Logf("tasks: %v", err)
		}
		for _, task := range tasks {
			q.t.Logf("task %s is %v, attempt %d, due at %v, last error %q", task.ID, task.State, task.Retried+1, task.NextProcessAt, task.LastErr)
		}
	}
}

// startServer starts a server. It is shut down when shutdown is called, or when the test ends.
func startServer(t testing.TB, redis asynq.RedisConnOpt, cfg asynq.Config, h asynq.Handler) (shutdown func()) {
	t.Helper()
	server := asynq.NewServer(redis, cfg)
	if err := server.Start(h); err != nil {
		t.Fatal(err)
	}
	shutdown = sync.OnceFunc(server.Shutdown)
	t.Cleanup(shutdown)
	return shutdown
}

// pause pauses the queue until resume is called, which first waits for that many servers.
func (q *queue) pause() (resume func(servers int)) {
	q.t.Helper()
	if err := q.inspector.PauseQueue("default"); err != nil {
		q.t.Fatal(err)
	}
	return func(servers int) {
		q.t.Helper()
		eventually(q.t, func() bool {
			there, err := q.inspector.Servers()
			return err == nil && len(there) == servers
		})
		if err := q.inspector.UnpauseQueue("default"); err != nil {
			q.t.Fatal(err)
		}
	}
}

// queueOn returns asynq's connection options for a server.
func queueOn(s *redistest.Server) asynq.RedisConnOpt { return asynq.RedisClientOpt{Addr: s.Addr()} }

// fulfil enqueues a task for an item.
func (q *queue) fulfil(item string, opts ...asynq.Option) (id string) {
	q.t.Helper()
	return q.enqueue(fulfilItem(item), append([]asynq.Option{asynq.Retention(time.Hour)}, opts...)...)
}

func (q *queue) enqueue(task *asynq.Task, opts ...asynq.Option) (id string) {
	q.t.Helper()
	info, err := q.client.Enqueue(task, opts...)
	if err != nil {
		q.t.Fatal(err)
	}
	return info.ID
}

// needsArchive skips a test on a server on which asynq cannot archive a task.
func (q *queue) needsArchive() {
	q.t.Helper()
	rdb := q.on.MakeRedisClient().(redis.UniversalClient)
	defer rdb.Close()
	redistest.NeedsByScore(q.t, rdb)
}

// await waits until the task is in one of the states.
func (q *queue) await(id string, states ...asynq.TaskState) *asynq.TaskInfo {
	q.t.Helper()
	if slices.Equal(states, []asynq.TaskState{asynq.TaskStateArchived}) {
		q.needsArchive()
	}
	var info *asynq.TaskInfo
	defer func() {
		if q.t.Failed() && info != nil {
			q.t.Logf("task %s is %v, and its last error %q", id, info.State, info.LastErr)
		}
	}()
	eventually(q.t, func() bool {
		var err error
		if info, err = q.inspector.GetTaskInfo("default", id); err != nil {
			return false
		}
		if slices.Contains(states, info.State) {
			return true
		}
		q.tryAgain(info)
		return false
	})
	return info
}

// tryAgain repeats a task whose attempt failed because Redis did not answer in time, as on a busy machine. The server may have no
// forwarder.
func (q *queue) tryAgain(info *asynq.TaskInfo) {
	text := strings.TrimPrefix(lockmw.ErrUnavailable.Error(), "lockmw: ") // an Error has its prefix elsewhere
	if info.State == asynq.TaskStateRetry && strings.Contains(info.LastErr, text) && q.inspector.RunTask(info.Queue, info.ID) == nil {
		q.outages[info.ID]++
	}
}

// awaitCopy is await for the n-th copy that WithRescue makes of a task.
func (q *queue) awaitCopy(id string, n int, states ...asynq.TaskState) *asynq.TaskInfo {
	q.t.Helper()
	list := map[asynq.TaskState]func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		asynq.TaskStateActive:    q.inspector.ListActiveTasks,
		asynq.TaskStatePending:   q.inspector.ListPendingTasks,
		asynq.TaskStateScheduled: q.inspector.ListScheduledTasks,
		asynq.TaskStateArchived:  q.inspector.ListArchivedTasks,
		asynq.TaskStateCompleted: q.inspector.ListCompletedTasks,
	}
	var info *asynq.TaskInfo
	eventually(q.t, func() bool {
		for _, state := range states {
			tasks, _ := list[state]("default")
			i := slices.IndexFunc(tasks, func(t *asynq.TaskInfo) bool { return strings.HasPrefix(t.ID, fmt.Sprintf("%s~%d-", id, n)) })
			if i >= 0 {
				info = tasks[i]
				return true
			}
		}
		return false
	})
	return info
}

// eventually polls until done reports true.
func eventually(t testing.TB, done func() bool) {
	t.Helper()
	usertest.Eventually(t, "the expected state", 2*time.Minute, done)
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	return usertest.Receive(t, "the expected event", c)
}

type order struct{ Item string }

var byItem = asynqmw.By("item", asynqmw.Payload(func(o order) string { return o.Item }))

func fulfilItem(item string) *asynq.Task { return taskFor("order:fulfil", item) }

func taskFor(typename, item string) *asynq.Task {
	return asynq.NewTask(typename, []byte(`{"Item":"`+item+`"}`))
}

func handle(f func(context.Context) error) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error { return f(ctx) })
}

// never fails the test if a task reaches it.
func never(t *testing.T) asynq.Handler {
	return handle(func(context.Context) error {
		t.Error("the handler was called")
		return nil
	})
}

// nextTick makes a busy task come back at the server's next check for tasks that are due.
var nextTick = asynqmw.WithRequeueDelay(0, 0)

// pipedRedis is an embedded Redis without a port, for asynq in a bubble.
type pipedRedis struct {
	t testing.TB
	s *redistest.Server
}

// MakeRedisClient implements asynq.RedisConnOpt.
func (r pipedRedis) MakeRedisClient() any { return r.s.NewClient(r.t) }

// inBubble runs a timing test in a synctest bubble, whose clock advances only when all goroutines are blocked. The test must not run
// in parallel with others.
func inBubble(t *testing.T, test func(t *testing.T, redis asynq.RedisConnOpt)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(10 * time.Second) }) // until the goroutines of asynq and go-redis have ended
		test(t, pipedRedis{t, redistest.Piped(t)})
	})
}
