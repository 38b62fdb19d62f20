package asynqmw

import (
	"testing"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

func TestATaskIsNotACopyOfATaskThatStillExists(t *testing.T) {
	rdb := redistest.Mini(t).NewClient(t)
	check := func(queues *parked.Store, origin string, requeued int) {
		t.Helper()
		g := &guard{config: &config{}, queues: queues, locker: lockmw.NewLocal()}
		a := &attempt{ctx: t.Context(), queue: "default", id: "a~2-ABCDEFGH", origin: "a", requeued: 2}
		if g.checkOrigin(a, "order:fulfil"); a.origin != origin || a.requeued != requeued {
			t.Errorf("a copy of %q, queued again %d times; want %q, %d", a.origin, a.requeued, origin, requeued)
		}
	}
	queues, task := &parked.Store{Redis: rdb}, parked.TaskPrefix("default")+"a"
	check(queues, "a", 2) // its task was deleted
	for _, state := range []string{"active", "pending", "retry", "archived", "completed"} {
		rdb.HSet(t.Context(), task, "state", state)
		check(queues, "a~2-ABCDEFGH", 0)
	}
	check(nil, "a", 2) // the queue is unknown
	rdb.Set(t.Context(), task, "not a task", 0)
	check(queues, "a", 2)
}
