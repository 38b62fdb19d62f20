package asynqmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
)

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
