package asynqmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

const schedulerKey = "lead:scheduler"

// A fakeScheduler reports when it starts and ends.
type fakeScheduler struct {
	fails    error // of Start
	begins   func()
	ends     func()
	shutdown time.Duration // how long that takes
}

func (s *fakeScheduler) Start() error {
	if s.fails == nil {
		s.begins()
	}
	return s.fails
}

func (s *fakeScheduler) Shutdown() {
	time.Sleep(s.shutdown)
	s.ends()
}

// nowhere is the connection of a fakeScheduler.
var nowhere = asynq.RedisClientOpt{Addr: "127.0.0.1:0"}

func TestOneSchedulerRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockmw.NewLocal()
		var mu sync.Mutex
		running, terms := 0, 0
		replica := func(ctx context.Context) error {
			return asynqmw.RunScheduler(ctx, l, schedulerKey, nowhere, func(asynq.RedisConnOpt) (asynqmw.Scheduler, error) {
				return &fakeScheduler{
					shutdown: time.Minute,
					begins: func() {
						mu.Lock()
						defer mu.Unlock()
						running++
						terms++
						if running != 1 {
							t.Errorf("%d schedulers run", running)
						}
					},
					ends: func() {
						mu.Lock()
						defer mu.Unlock()
						running--
					},
				}, nil
			})
		}
		var replicas sync.WaitGroup
		var stops []context.CancelFunc
		for range 3 {
			ctx, stop := context.WithCancel(t.Context())
			stops = append(stops, stop)
			replicas.Go(func() {
				if err := replica(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("RunScheduler: %v, want the end of its context", err)
				}
			})
			synctest.Wait()
		}
		for _, stop := range stops {
			time.Sleep(time.Hour)
			stop()
		}
		replicas.Wait()
		if terms != 3 || running != 0 {
			t.Errorf("%d terms, and %d schedulers that still run; want 3 and 0", terms, running)
		}
	})
}

func TestRunSchedulerReturnsTheErrorsOfTheScheduler(t *testing.T) {
	l := lockmw.NewLocal()
	ended := 0
	for name, tt := range map[string]struct {
		make func(asynq.RedisConnOpt) (asynqmw.Scheduler, error)
		want error
	}{
		"no scheduler":             {func(asynq.RedisConnOpt) (asynqmw.Scheduler, error) { return nil, io.EOF }, io.EOF},
		"neither one nor an error": {func(asynq.RedisConnOpt) (asynqmw.Scheduler, error) { return nil, nil }, nil},
		"one that does not start": {func(asynq.RedisConnOpt) (asynqmw.Scheduler, error) {
			return &fakeScheduler{fails: io.ErrClosedPipe, ends: func() { ended++ }}, nil
		}, io.ErrClosedPipe},
		"no function": {nil, lockmw.ErrInvalidOption},
	} {
		err := asynqmw.RunScheduler(t.Context(), l, schedulerKey, nowhere, tt.make)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if ended != 1 {
		t.Errorf("a scheduler that did not start was shut down %d times, want once", ended)
	}
	if err := asynqmw.RunScheduler(t.Context(), l, schedulerKey, nil, nil); !errors.Is(err, lockmw.ErrInvalidOption) {
		t.Errorf("without a connection: %v", err)
	}
}

func TestRunSchedulerRefusesALockThatOthersShare(t *testing.T) {
	local := lockmw.NewLocal()
	for name, l := range map[string]lockmw.Locker{"a lock for reading": local.RLocker(), "a semaphore": semaphore.NewLocal(local, 1)} {
		err := asynqmw.RunScheduler(t.Context(), l, schedulerKey, nowhere, func(asynq.RedisConnOpt) (asynqmw.Scheduler, error) {
			t.Errorf("%s: a scheduler is made", name)
			return nil, io.EOF
		})
		if !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
	}
}

// A process that was paused runs its due entries before it learns that it no longer leads.
func TestAFormerLeaderEnqueuesNothing(t *testing.T) {
	l, redisOpt := lockmw.NewLocal(), startRedis(t)
	q := newQueue(t, redisOpt)
	ctx, stop := context.WithCancel(t.Context())
	conns := make(chan asynq.RedisConnOpt, 2)
	result := make(chan error)
	go func() {
		result <- asynqmw.RunScheduler(ctx, l, schedulerKey, redisOpt, func(r asynq.RedisConnOpt) (asynqmw.Scheduler, error) {
			conns <- r
			return asynq.NewScheduler(r, &asynq.SchedulerOpts{Logger: silent{}}), nil
		})
	}()
	leads := <-conns
	client := asynq.NewClient(leads)
	defer func() { _ = client.Close() }()
	if _, err := client.Enqueue(asynq.NewTask("report", nil)); err != nil {
		t.Fatalf("the leader: %v", err)
	}
	l.Expire(schedulerKey)
	if _, err := client.Enqueue(asynq.NewTask("report", nil)); err == nil || !strings.Contains(err.Error(), "not enqueued: lockmw: lock was lost") {
		t.Errorf("after the loss: %v, want that it was lost", err) // asynq does not wrap
	}
	if rdb, ok := leads.MakeRedisClient().(redis.UniversalClient); ok {
		if err := rdb.Del(t.Context(), "asynq:tidied").Err(); err != nil {
			t.Errorf("a command that is not a script is refused: %v", err)
		}
		_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Get(t.Context(), "x")
			p.Eval(t.Context(), "return 1", nil)
			return nil
		})
		if !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("a pipeline with a script after the loss: %v, want ErrLost", err)
		}
		_ = rdb.Close()
	}

	next := asynq.NewClient(<-conns)
	defer func() { _ = next.Close() }()
	if _, err := next.Enqueue(asynq.NewTask("report", nil)); err != nil {
		t.Errorf("the next leader: %v", err)
	}
	stop()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("RunScheduler: %v", err)
	}
	if _, err := next.Enqueue(asynq.NewTask("report", nil)); err == nil || !strings.Contains(err.Error(), "not enqueued") {
		t.Errorf("after the end: %v", err)
	}
	if info, err := q.inspector.GetQueueInfo("default"); err != nil || info.Pending != 2 {
		t.Errorf("%+v, %v; want 2 tasks", info, err)
	}
}

// schedule runs a replica. While it leads it enqueues a task a second, whose item is its process ID.
func (s workerSpec) schedule(orders *json.Decoder, locks lockmw.Locker) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_ = orders.Decode(new(any))
	}()
	opt := asynq.RedisClientOpt{Addr: s.Addr}
	err := asynqmw.RunScheduler(ctx, locks, schedulerKey, opt, func(r asynq.RedisConnOpt) (asynqmw.Scheduler, error) {
		scheduler := asynq.NewScheduler(r, &asynq.SchedulerOpts{Logger: silent{}})
		_, err := scheduler.Register("@every 1s", taskFor("order:fulfil", strconv.Itoa(os.Getpid())))
		return scheduler, err
	}, lockmw.WithLease(shortLease))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// enqueuedBy counts the tasks of a replica.
func (q *queue) enqueuedBy(pid int) (n int) {
	q.t.Helper()
	tasks, err := q.inspector.ListPendingTasks("default", asynq.PageSize(1000))
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		q.t.Fatal(err)
	}
	for _, task := range tasks {
		var o order
		if err := json.Unmarshal(task.Payload, &o); err != nil {
			q.t.Fatal(err)
		}
		if o.Item == strconv.Itoa(pid) {
			n++
		}
	}
	return n
}

// awaitEnqueued waits until a replica has enqueued more tasks, and returns how many there are.
func (q *queue) awaitEnqueued(pid, more int) (n int) {
	q.t.Helper()
	before := q.enqueuedBy(pid)
	eventually(q.t, func() bool {
		n = q.enqueuedBy(pid)
		return n >= before+more
	})
	return n
}

func TestAnotherReplicaSchedulesWhenTheLeaderIsStoppedOrKilled(t *testing.T) {
	suite.NeedsFull(t, "it waits for leases and seconds")
	t.Parallel()
	s := redistest.Redis(t)
	q := newQueue(t, queueOn(s))
	spec := workerSpec{Addr: s.Addr(), Schedules: true}
	first := startWorker(t, spec)
	q.awaitEnqueued(first.PID(), 1)
	second := startWorker(t, spec)
	first.Pause(t)
	q.awaitEnqueued(second.PID(), 1)
	stopped := q.enqueuedBy(first.PID())
	first.Resume(t) // its entries were due in the meantime
	q.awaitEnqueued(second.PID(), 3)
	if n := q.enqueuedBy(first.PID()); n != stopped {
		t.Errorf("the replica that was stopped enqueued %d tasks when another one led", n-stopped)
	}
	over := endOfLease(t, s.NewClient(t), schedulerKey)
	second.Kill()
	q.awaitEnqueued(first.PID(), 1)
	if early := time.Until(over); early > 0 {
		t.Errorf("the next one enqueued %v before the lease of the dead leader had expired", early)
	}
	third := startWorker(t, spec)
	first.End() // a clean stop
	q.awaitEnqueued(third.PID(), 1)
}
