package asynqmw

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
)

// A table is a queue as asynq keeps it, laid out by hand.
type table struct {
	t     *testing.T
	rdb   *redis.Client
	lists lists
	id    crowdID
}

func newTable(t *testing.T, s *redistest.Server) *table {
	rdb := s.NewClient(t)
	return &table{t, rdb, lists{rdb}, crowdID{queue: "default", lock: "lockmw:{item:7}"}}
}

func eachTable(t *testing.T, test func(tb *table)) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) { test(newTable(t, s)) })
}

func (tb *table) do(args ...any) any {
	tb.t.Helper()
	v, err := tb.rdb.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		tb.t.Fatalf("%v: %v", args, err)
	}
	return v
}

// task puts a task into a state. what is its message.
func (tb *table) task(id, state, what string) {
	tb.t.Helper()
	key := taskPrefix("default") + id
	tb.do("HSET", key, "state", state, "msg", what)
	for _, set := range []string{"retry", "scheduled", "archived", "completed"} {
		tb.do("ZREM", inQueue("default", set), id)
	}
	tb.do("LREM", inQueue("default", "active"), 0, id)
	tb.do("LREM", inQueue("default", "pending"), 0, id)
	switch state {
	case "active", "pending":
		tb.do("LPUSH", inQueue("default", state), id)
	default:
		tb.do("ZADD", inQueue("default", state), 2e9, id)
	}
}

func (tb *table) call(id string) parkCall {
	return parkCall{crowdID: tb.id, id: id, nonce: "N" + id, state: "active"}
}

func (tb *table) asks(c parkCall, want parkAnswer) {
	tb.t.Helper()
	got, err := tb.lists.park(context.Background(), c)
	if err != nil || got != want {
		tb.t.Errorf("park %+v: %+v %v, want %+v", c, got, err, want)
	}
}

// parks parks a task and puts it back, as asynq does.
func (tb *table) parks(ids ...string) {
	tb.t.Helper()
	for _, id := range ids {
		tb.task(id, "active", "")
		if got, err := tb.lists.park(context.Background(), tb.call(id)); err != nil || got.what != parkTask {
			tb.t.Fatalf("park %s: %+v %v", id, got, err)
		}
		tb.task(id, "retry", "asynqmw: parked (N"+id+"): busy")
	}
}

func (tb *table) promotes(n int, ahead bool, want promotion) {
	tb.t.Helper()
	got, err := tb.lists.promote(context.Background(), tb.id, n, ahead)
	if err != nil || got != want {
		tb.t.Errorf("promote: %+v %v, want %+v", got, err, want)
	}
}

// pendingAre compares what waits for a worker, the next one first.
func (tb *table) pendingAre(want ...string) {
	tb.t.Helper()
	got, err := tb.rdb.LRange(context.Background(), inQueue("default", "pending"), 0, -1).Result()
	slices.Reverse(got)
	if err != nil || !slices.Equal(got, want) {
		tb.t.Errorf("pending: %v %v, want %v", got, err, want)
	}
}

// listed compares the list.
func (tb *table) listed(want ...string) {
	tb.t.Helper()
	got, err := tb.rdb.ZRange(context.Background(), listOf(tb.id.queue, tb.id.lock), 0, -1).Result()
	if err != nil || !slices.Equal(got, want) {
		tb.t.Errorf("listed: %v %v, want %v", got, err, want)
	}
}

func TestParkedTasksAreCalledInTheOrderOfTheirArrival(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b", "c")
		tb.task("other", "pending", "")
		tb.promotes(1, false, promotion{moved: 1, left: 2})
		tb.pendingAre("a", "other")
		tb.listed("b", "c")
		tb.promotes(1, false, promotion{left: -1}) // a has not arrived
		tb.task("a", "active", "")
		tb.promotes(2, false, promotion{moved: 2, left: 0})
		tb.pendingAre("b", "c", "other")
		for key, want := range map[string]any{inQueue("default", "retry"): int64(0), listsOf("default"): int64(0)} {
			if got := tb.do("EXISTS", key); got != want {
				tb.t.Errorf("%s exists: %v", key, got)
			}
		}
		if state := tb.do("HGET", taskPrefix("default")+"c", "state"); state != "pending" {
			tb.t.Errorf("c is %v", state)
		}
	})
}

func TestACalledTaskThatFindsItsLockBusyReturnsToItsPlace(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.promotes(1, false, promotion{moved: 1, left: 1})
		tb.task("a", "active", "")
		c := tb.call("a")
		c.when = parkIfCalled
		tb.asks(c, parkAnswer{what: parkTask, called: true})
		tb.asks(c, parkAnswer{what: refuseTask}) // it stands on the list: not called
		tb.listed("a", "b")
		c.when = parkAnyway
		tb.asks(c, parkAnswer{what: parkTask}) // again, as its answer was lost
		tb.listed("a", "b")
	})
}

func TestOnlyTheFirstAndWhoWasCalledMayWaitAndNotBesideOthers(t *testing.T) {
	eachTable(t, func(tb *table) {
		waits := func(id string) parkCall {
			c := tb.call(id)
			c.mayWait = true
			return c
		}
		tb.task("a", "active", "")
		tb.asks(waits("a"), parkAnswer{what: waitInWorker})
		tb.task("other", "pending", "")
		tb.asks(waits("a"), parkAnswer{what: parkTask})
		tb.task("a", "retry", "(Na)")
		tb.task("other", "active", "")
		tb.task("b", "active", "")
		tb.asks(waits("b"), parkAnswer{what: parkTask, rank: 1})
		tb.task("b", "retry", "(Nb)")
		tb.promotes(1, true, promotion{moved: 1, left: 1})
		tb.promotes(1, true, promotion{left: -1})
		tb.task("a", "active", "")
		tb.asks(waits("a"), parkAnswer{what: waitInWorker, called: true})
		never := tb.call("a")
		never.when = parkNever
		tb.asks(never, parkAnswer{what: refuseTask})
	})
}

// What asynq, an operator or the handler itself has done with a task since it was parked stays as it is.
func TestNoOtherTaskIsMoved(t *testing.T) {
	for name, change := range map[string]func(tb *table){
		"completed":                              func(tb *table) { tb.task("a", "completed", "asynqmw: parked (Na): busy") },
		"archived":                               func(tb *table) { tb.task("a", "archived", "asynqmw: parked (Na): busy") },
		"scheduled":                              func(tb *table) { tb.task("a", "scheduled", "a task of the same ID") },
		"backing off for its own reasons":        func(tb *table) { tb.task("a", "retry", "no connection to the database") },
		"backing off, with the nonce, as a copy": func(tb *table) { tb.task("a", "retry", "Na no connection") },
		"deleted": func(tb *table) {
			tb.task("a", "pending", "")
			tb.do("RPOP", inQueue("default", "pending"))
			tb.do("DEL", taskPrefix("default")+"a")
		},
		"in no set":      func(tb *table) { tb.do("ZREM", inQueue("default", "retry"), "a") },
		"enqueued again": func(tb *table) { tb.do("DEL", taskPrefix("default")+"a"); tb.task("a", "scheduled", "Na") },
	} {
		t.Run(name, func(t *testing.T) {
			eachTable(t, func(tb *table) {
				tb.parks("a", "b")
				change(tb)
				tb.promotes(1, false, promotion{moved: 1, left: 0})
				tb.pendingAre("b")
				tb.listed()
			})
		})
	}
}

func TestATaskThatIsStillActiveIsWaitedFor(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a")
		tb.task("a", "active", "asynqmw: parked (Na): busy")
		tb.promotes(1, false, promotion{left: 1, soon: true})
		tb.listed("a")
		tb.parks("b")
		tb.promotes(1, false, promotion{moved: 1, left: 1})
		tb.pendingAre("b")
	})
}

func TestNoTaskIsMovedInAPausedQueue(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a")
		tb.do("SET", inQueue("default", "paused"), 1)
		tb.promotes(1, false, promotion{left: -1})
		tb.pendingAre()
	})
}

func TestACopyIsKnownByItsHeader(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.task("a~2-K", "scheduled", "header: 2-K")
		c := parkCall{crowdID: tb.id, id: "a~2-K", nonce: "2-K", state: "scheduled"}
		tb.asks(c, parkAnswer{what: parkTask})
		tb.promotes(1, false, promotion{moved: 1, left: 0})
		tb.pendingAre("a~2-K")
	})
}

func TestTasksThatCannotBeParked(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.asks(tb.call("elsewhere"), parkAnswer{what: unknownTask})
		tb.task("a", "retry", "") // asynq has given its worker up
		tb.asks(tb.call("a"), parkAnswer{what: unknownTask})
		tb.task("b", "active", "")
		tb.do("HSET", taskPrefix("default")+"b", "group", "g")
		tb.asks(tb.call("b"), parkAnswer{what: leaveGrouped})
		tb.listed()
	})
}

func TestListsEndByThemselves(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a")
		for _, key := range []string{listOf(tb.id.queue, tb.id.lock), listsOf("default")} {
			if ttl, _ := tb.do("PTTL", key).(int64); ttl <= longestAway.Milliseconds() || ttl > listsLast.Milliseconds() {
				tb.t.Errorf("%s ends in %d ms", key, ttl)
			}
		}
	})
}

func TestManyThatCannotBeMovedLeaveTheListBitByBit(t *testing.T) {
	t.Parallel()
	eachTable(t, func(tb *table) {
		var ids []string
		for i := range 150 {
			ids = append(ids, strconv.Itoa(i))
		}
		tb.parks(ids...)
		for _, id := range ids[:149] {
			tb.do("DEL", taskPrefix("default")+id)
		}
		tb.promotes(1, false, promotion{left: 50, soon: true})
		tb.promotes(1, false, promotion{moved: 1})
		tb.pendingAre("149")
	})
}
