package asynqmw

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
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
	key := parked.TaskPrefix("default") + id
	tb.do("HSET", key, "state", state, "msg", what)
	for _, set := range []string{"retry", "scheduled", "archived", "completed"} {
		tb.do("ZREM", parked.InQueue("default", set), id)
	}
	tb.do("LREM", parked.InQueue("default", "active"), 0, id)
	tb.do("LREM", parked.InQueue("default", "pending"), 0, id)
	switch state {
	case "active", "pending":
		tb.do("LPUSH", parked.InQueue("default", state), id)
	default:
		tb.do("ZADD", parked.InQueue("default", state), 2e9, id)
	}
}

func (tb *table) call(id string) parkCall {
	return parkCall{crowdID: tb.id, id: id, nonce: "N" + id}
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

func (tb *table) promotes(n int, when callWhen, want promotion, gone ...string) {
	tb.t.Helper()
	got, err := tb.lists.promote(context.Background(), tb.id, n, when, gone)
	if err != nil || got != want {
		tb.t.Errorf("promote: %+v %v, want %+v", got, err, want)
	}
}

// pendingAre compares what waits for a worker, the next one first.
func (tb *table) pendingAre(want ...string) {
	tb.t.Helper()
	got, err := tb.rdb.LRange(context.Background(), parked.InQueue("default", "pending"), 0, -1).Result()
	slices.Reverse(got)
	if err != nil || !slices.Equal(got, want) {
		tb.t.Errorf("pending: %v %v, want %v", got, err, want)
	}
}

// listed compares the list.
func (tb *table) listed(want ...string) {
	tb.t.Helper()
	got, err := tb.rdb.ZRange(context.Background(), parked.ListOf(tb.id.queue, tb.id.lock), 0, -1).Result()
	if err != nil || !slices.Equal(got, want) {
		tb.t.Errorf("listed: %v %v, want %v", got, err, want)
	}
}

// comes has a worker take a task that was called.
func (tb *table) comes(id string) {
	tb.t.Helper()
	tb.do("LREM", parked.InQueue("default", "pending"), 0, id)
	tb.do("LPUSH", parked.InQueue("default", "active"), id)
	tb.do("HSET", parked.TaskPrefix("default")+id, "state", "active")
}

// ages has a task do for long what it does.
func (tb *table) ages(id string) {
	tb.t.Helper()
	tb.countsUntil(id, 1)
}

// staysFresh has the task count as just parked, however slow the machine is: else it does for some milliseconds.
func (tb *table) staysFresh(id string) {
	tb.t.Helper()
	tb.countsUntil(id, time.Now().Add(time.Hour).UnixMicro())
}

func (tb *table) countsUntil(id string, till int64) {
	tb.t.Helper()
	key := parked.TaskPrefix("default") + id
	field, _ := tb.do("HGET", key, "lockmw").(string)
	tb.do("HSET", key, "lockmw", regexp.MustCompile(`[0-9]+ `).ReplaceAllString(field, strconv.FormatInt(till, 10)+" "))
}

func TestParkedTasksAreCalledInTheOrderOfTheirArrival(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b", "c")
		tb.task("other", "pending", "")
		tb.promotes(1, callAnyway, promotion{moved: 1, left: 3})
		tb.pendingAre("a", "other")
		tb.listed("a", "b", "c")
		for _, comes := range []func(string){func(string) {}, tb.comes} {
			comes("a")
			tb.promotes(1, callAnyway, promotion{left: 3}) // a does not wait yet
		}
		tb.promotes(2, callAnyway, promotion{moved: 2, left: 2}, "a")
		tb.pendingAre("b", "c", "other")
		for _, id := range []string{"b", "c"} {
			tb.comes(id)
		}
		tb.promotes(2, callAnyway, promotion{}, "b", "c")
		for key, want := range map[string]any{parked.InQueue("default", "retry"): int64(0), parked.LocksOf("default"): int64(0)} {
			if got := tb.do("EXISTS", key); got != want {
				tb.t.Errorf("%s exists: %v", key, got)
			}
		}
	})
}

// All workers may be busy for long.
func TestACalledTaskThatNoWorkerTakesIsNotOvertaken(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.promotes(1, callAnyway, promotion{moved: 1, left: 2})
		tb.ages("a")
		tb.promotes(1, callAnyway, promotion{left: 2})
		tb.pendingAre("a")
	})
}

func TestATaskThatWaitedInItsWorkerHasThePlaceOfItsArrival(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.task("late", "active", "")
		c := tb.call("late")
		c.waited = time.Hour
		tb.asks(c, parkAnswer{what: parkTask})
		tb.listed("late", "a", "b")
	})
}

func TestATaskWhoseServerIsShutDownWhileItWaitsKeepsItsPlace(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.task("first", "active", "")
		tb.asks(tb.waits("first"), parkAnswer{what: waitInWorker})
		tb.parks("a", "b")
		tb.task("first", "pending", "")
		tb.promotes(1, callAnyway, promotion{left: 3})
		tb.task("first", "active", "")
		c := tb.call("first")
		c.nonce = "later"
		tb.asks(c, parkAnswer{what: parkTask})
		tb.listed("first", "a", "b")
	})
}

func TestACalledTaskThatFindsItsLockBusyReturnsToItsPlace(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.promotes(1, callAnyway, promotion{moved: 1, left: 2})
		tb.comes("a")
		c := tb.call("a")
		c.ifCalled, c.nonce = true, "called"
		for range 2 { // the answer was lost
			tb.asks(c, parkAnswer{what: parkTask, called: true})
			tb.listed("a", "b")
		}
		c.nonce = "later"
		tb.asks(c, parkAnswer{what: refuseTask}) // it was not called again
		c.ifCalled = false
		tb.asks(c, parkAnswer{what: parkTask})
		tb.listed("a", "b")
	})
}

func (tb *table) waits(id string) parkCall {
	c := tb.call(id)
	c.stay = time.Minute
	return c
}

func TestOnlyTheOldestAndCalledTasksWaitInTheirWorkerUnlessOthersNeedIt(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.task("a", "active", "")
		for range 2 { // the answer was lost
			tb.asks(tb.waits("a"), parkAnswer{what: waitInWorker})
		}
		tb.task("other", "pending", "")
		tb.asks(tb.waits("a"), parkAnswer{what: parkTask})
		tb.task("a", "retry", "(Na)")
		tb.task("other", "active", "")
		tb.task("b", "active", "")
		tb.asks(tb.waits("b"), parkAnswer{what: parkTask, rank: 1})
		tb.task("b", "retry", "(Nb)")
		tb.promotes(1, callAhead, promotion{moved: 1, left: 2})
		tb.promotes(1, callAhead, promotion{left: -1})
		tb.comes("a")
		tb.asks(tb.waits("a"), parkAnswer{what: waitInWorker, called: true})
	})
}

// An older task that was called may be on its way.
func TestTasksThatWereCalledTogetherWaitInTheirOrder(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b", "c")
		tb.promotes(2, callAhead, promotion{moved: 2, left: 3})
		tb.comes("b")
		tb.asks(tb.waits("b"), parkAnswer{what: letOlderGo})
		tb.comes("a")
		tb.asks(tb.waits("b"), parkAnswer{what: letOlderGo})
		tb.asks(tb.waits("a"), parkAnswer{what: waitInWorker, called: true})
		tb.asks(tb.waits("b"), parkAnswer{what: waitInWorker, rank: 1, called: true})
		tb.promotes(2, callAhead, promotion{left: 3}) // two wait
		tb.promotes(3, callAhead, promotion{moved: 1, left: 3})
		tb.comes("c")
		tb.asks(tb.waits("c"), parkAnswer{what: waitInWorker, rank: 2, called: true})
	})
}

func TestATaskDoesNotLetAnOlderOneGoFirstForLong(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.promotes(2, callAhead, promotion{moved: 2, left: 2})
		tb.comes("a") // its worker dies
		tb.comes("b")
		c := tb.waits("b")
		tb.asks(c, parkAnswer{what: letOlderGo})
		c.hurried = true
		tb.asks(c, parkAnswer{what: waitInWorker, rank: 1, called: true})
		tb.ages("a")
		c.hurried = false
		tb.asks(c, parkAnswer{what: waitInWorker, rank: 1, called: true})
	})
}

// A lock that is held for long has one task wait for it, in whichever process.
func TestNoTaskIsCalledToAHeldLockWhileAnOlderOneWaits(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.task("a", "active", "")
		tb.asks(tb.waits("a"), parkAnswer{what: waitInWorker})
		tb.task("b", "active", "")
		tb.asks(tb.waits("b"), parkAnswer{what: parkTask, rank: 1})
		tb.task("b", "retry", "(Nb)")
		tb.promotes(1, callHeld, promotion{left: 2})
		tb.ages("a") // its worker has died
		tb.promotes(1, callHeld, promotion{moved: 1, left: 2})
	})
}

// What asynq, an operator or the handler itself has done with a task since it was parked stays as it is.
func TestNoOtherTaskIsMoved(t *testing.T) {
	for name, change := range map[string]func(tb *table){
		"completed":                       func(tb *table) { tb.task("a", "completed", "asynqmw: parked (Na): busy") },
		"archived":                        func(tb *table) { tb.task("a", "archived", "asynqmw: parked (Na): busy") },
		"scheduled":                       func(tb *table) { tb.task("a", "scheduled", "a task of the same ID") },
		"backing off for its own reasons": func(tb *table) { tb.task("a", "retry", "no connection to the database") },
		"backing off, with the nonce":     func(tb *table) { tb.task("a", "retry", "Na no connection") },
		"deleted": func(tb *table) {
			tb.task("a", "pending", "")
			tb.do("RPOP", parked.InQueue("default", "pending"))
			tb.do("DEL", parked.TaskPrefix("default")+"a")
		},
		"in no set":      func(tb *table) { tb.do("ZREM", parked.InQueue("default", "retry"), "a") },
		"enqueued again": func(tb *table) { tb.do("DEL", parked.TaskPrefix("default")+"a"); tb.task("a", "scheduled", "Na") },
	} {
		t.Run(name, func(t *testing.T) {
			eachTable(t, func(tb *table) {
				tb.parks("a", "b")
				change(tb)
				tb.promotes(1, callAnyway, promotion{moved: 1, left: 1})
				tb.pendingAre("b")
				tb.listed("b")
			})
		})
	}
}

func TestATaskThatIsStillActiveIsWaitedForAndNotOvertaken(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.task("a", "active", "")
		c := tb.call("a")
		tb.asks(c, parkAnswer{what: parkTask})
		tb.staysFresh("a")
		tb.promotes(1, callAnyway, promotion{left: 2, soon: true})
		tb.listed("a", "b")
		tb.ages("a") // its worker has died
		tb.promotes(1, callAnyway, promotion{moved: 1, left: 2})
		tb.pendingAre("b")
	})
}

func TestNoTaskIsMovedInAPausedQueue(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a")
		tb.do("SET", parked.InQueue("default", "paused"), 1)
		tb.promotes(1, callAnyway, promotion{left: -1})
		tb.pendingAre()
	})
}

func TestTasksThatCannotBeParked(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.asks(tb.call("elsewhere"), parkAnswer{what: unknownTask})
		tb.task("a", "retry", "") // asynq has given its worker up
		tb.asks(tb.call("a"), parkAnswer{what: unknownTask})
		tb.task("b", "active", "")
		tb.do("HSET", parked.TaskPrefix("default")+"b", "group", "g")
		tb.asks(tb.call("b"), parkAnswer{what: leaveGrouped})
		tb.listed()
	})
}

func TestListsEndByThemselves(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a")
		for _, key := range []string{parked.ListOf(tb.id.queue, tb.id.lock), parked.LocksOf("default")} {
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
			tb.do("DEL", parked.TaskPrefix("default")+id)
		}
		tb.promotes(1, callAnyway, promotion{left: 50, soon: true})
		tb.promotes(1, callAnyway, promotion{moved: 1, left: 1})
		tb.pendingAre("149")
	})
}
