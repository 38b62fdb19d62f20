package asynqmw_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/test/redistest"
)

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
