package asynqmw

import (
	"testing"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/lockmw"
)

func TestACopyOfATaskThatStillExistsIsNoCopy(t *testing.T) {
	eachTable(t, func(tb *table) {
		g := &guard{config: &config{}, queues: tb.rdb, locker: lockmw.NewLocal()}
		check := func(g *guard, origin string, requeued int) {
			tb.t.Helper()
			a := &attempt{ctx: tb.t.Context(), queue: "default", id: "a~2-ABCDEFGH", origin: "a", requeued: 2}
			if g.checkOrigin(a, "order:fulfil"); a.origin != origin || a.requeued != requeued {
				tb.t.Errorf("a copy of %q, queued again %d times; want %q, %d", a.origin, a.requeued, origin, requeued)
			}
		}
		check(g, "a", 2) // as its task was deleted
		for _, state := range []string{"active", "pending", "retry", "archived", "completed"} {
			tb.task("a", state, "")
			check(g, "a~2-ABCDEFGH", 0)
		}
		check(&guard{config: &config{}}, "a", 2) // the queue is unknown
		tb.do("SET", parked.TaskPrefix("default")+"a", "not a task")
		check(g, "a", 2)
	})
}
