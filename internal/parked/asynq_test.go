package parked_test

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

// A table is a queue as asynq keeps it, laid out by hand, and the list of a lock.
type table struct {
	t     *testing.T
	rdb   *redis.Client
	store parked.Store
	want  parked.ListID
	began time.Time // the last attempt
}

func eachTable(t *testing.T, test func(tb *table)) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		test(&table{t, rdb, parked.Store{Redis: rdb}, parked.ListID{Queue: "default", Lock: "lockmw:{item:7}"}, time.Now()})
	})
}

func (tb *table) do(args ...any) any {
	tb.t.Helper()
	v, err := tb.rdb.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		tb.t.Fatalf("%v: %v", args, err)
	}
	return v
}

func in(set string) string   { return parked.InQueue("default", set) }
func key(task string) string { return parked.TaskPrefix("default") + task }

// task puts a task into a state. Sets that are sorted by time have it at a time.
func (tb *table) task(id, state string, at int64) {
	tb.t.Helper()
	tb.do("HSET", key(id), "state", state)
	for _, set := range []string{"retry", "scheduled", "archived", "completed"} {
		tb.do("ZREM", in(set), id)
	}
	tb.do("LREM", in("active"), 0, id)
	tb.do("LREM", in("pending"), 0, id)
	if state == "active" || state == "pending" {
		tb.do("LPUSH", in(state), id)
	} else {
		tb.do("ZADD", in(state), at, id)
	}
}

// starts has a worker take tasks.
func (tb *table) starts(ids ...string) {
	tb.t.Helper()
	for _, id := range ids {
		tb.task(id, "active", 0)
	}
}

func (tb *table) busy(id string) parked.BusyTask {
	tb.began = time.Now()
	return parked.BusyTask{ListID: tb.want, ID: id, Began: tb.began}
}

func (tb *table) waits(id string) parked.BusyTask {
	b := tb.busy(id)
	b.Stay = time.Minute
	return b
}

func (tb *table) asks(b parked.BusyTask, what parked.Action, woken bool) (due int64) {
	tb.t.Helper()
	got, err := tb.store.Park(context.Background(), b)
	if err != nil || got.Action != what || got.Woken != woken {
		tb.t.Errorf("park %+v: %+v %v, want %v %v", b, got, err, what, woken)
	}
	return got.Due.Unix()
}

// parks parks tasks and puts them back, as asynq does.
func (tb *table) parks(ids ...string) {
	tb.t.Helper()
	for _, id := range ids {
		tb.starts(id)
		tb.task(id, "retry", tb.asks(tb.busy(id), parked.Park, false))
	}
}

// wakes compares which tasks are woken, and how many are left on the list.
func (tb *table) wakes(n int, when parked.When, left int, want ...string) {
	tb.t.Helper()
	before := len(tb.pending())
	if got := tb.wake(n, when); got.Left != left || got.WakeAgain {
		tb.t.Errorf("%+v, want %d left", got, left)
	}
	if now := tb.pending(); !slices.Equal(now[:len(now)-before], want) {
		tb.t.Errorf("pending: %v, and before %d, want %v woken", now, before, want)
	}
}

func (tb *table) wake(n int, when parked.When, gone ...string) parked.WakeResult {
	tb.t.Helper()
	got, err := tb.store.Wake(tb.want, n, when, gone)
	if err != nil {
		tb.t.Error(err)
	}
	return got
}

// pending returns what waits for a worker, the next one first.
func (tb *table) pending() []string {
	ids := tb.rdb.LRange(context.Background(), in("pending"), 0, -1).Val()
	slices.Reverse(ids)
	return ids
}

func (tb *table) pendingAre(want ...string) {
	tb.t.Helper()
	if got := tb.pending(); !slices.Equal(got, want) {
		tb.t.Errorf("pending: %v, want %v", got, want)
	}
}

// listed compares the list.
func (tb *table) listed(want ...string) {
	tb.t.Helper()
	if got := tb.rdb.ZRange(context.Background(), parked.ListOf(tb.want.Queue, tb.want.Lock), 0, -1).Val(); !slices.Equal(got, want) {
		tb.t.Errorf("listed: %v, want %v", got, want)
	}
}

// ages has a task do for long what it does.
func (tb *table) ages(id string) { tb.isOnItsWayUntil(id, 1) }

// staysFresh has the task count as just parked, however slow the machine is: otherwise it does for some milliseconds.
func (tb *table) staysFresh(id string) { tb.isOnItsWayUntil(id, time.Now().Add(time.Hour).UnixMicro()) }

func (tb *table) isOnItsWayUntil(id string, till int64) {
	tb.t.Helper()
	sign, _ := tb.do("HGET", key(id), "lockmw").(string)
	tb.do("HSET", key(id), "lockmw", regexp.MustCompile(`^([a-zA-Z]+)[0-9]+`).ReplaceAllString(sign, "${1}"+strconv.FormatInt(till, 10)))
}

func TestParkedTasksAreWokenInTheOrderOfTheirArrival(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b", "c")
		tb.task("other", "pending", 0)
		tb.wakes(1, parked.Anyway, 3, "a")
		tb.pendingAre("a", "other")
		tb.listed("a", "b", "c")
		tb.staysFresh("a")
		for _, comes := range []func(...string){func(...string) {}, tb.starts} {
			comes("a")
			tb.wakes(1, parked.Anyway, 3) // a does not wait yet
		}
		if got := tb.wake(2, parked.Anyway, "a"); got.Left != 2 {
			t.Errorf("%+v", got)
		}
		tb.pendingAre("b", "c", "other")
		tb.starts("b", "c")
		tb.wake(2, parked.Anyway, "b", "c")
		for _, key := range []string{in("retry"), parked.LocksOf("default")} {
			if got := tb.do("EXISTS", key); got != int64(0) {
				tb.t.Errorf("%s exists: %v", key, got)
			}
		}
	})
}

// All workers may be busy for long.
func TestAWokenTaskThatNoWorkerTakesIsNotOvertaken(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.wakes(1, parked.Anyway, 2, "a")
		tb.ages("a")
		tb.wakes(1, parked.Anyway, 2)
		tb.pendingAre("a")
	})
}

func TestATaskWhoseServerIsShutDownWhileItWaitsKeepsItsPlace(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.starts("first")
		tb.asks(tb.waits("first"), parked.WaitInWorker, false)
		tb.parks("a", "b")
		tb.task("first", "pending", 0)
		tb.wakes(1, parked.Anyway, 3)
		tb.starts("first")
		tb.asks(tb.busy("first"), parked.Park, false)
		tb.listed("first", "a", "b")
	})
}

func TestAWokenTaskThatFindsItsLockBusyReturnsToItsPlace(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.wakes(1, parked.Anyway, 2, "a")
		tb.starts("a")
		b := tb.busy("a")
		b.OnlyIfWoken = true
		for range 2 { // the answer was lost
			tb.asks(b, parked.Park, true)
			tb.listed("a", "b")
		}
		b.Began = time.Now()
		tb.asks(b, parked.Refuse, false) // it was not woken again
		b.OnlyIfWoken = false
		tb.asks(b, parked.Park, false)
		tb.listed("a", "b")
	})
}

func TestOnlyTheOldestAndWokenTasksWaitInTheirWorkerUnlessOthersNeedIt(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.starts("a")
		a := tb.waits("a")
		for range 2 { // the answer was lost
			tb.asks(a, parked.WaitInWorker, false)
		}
		tb.task("other", "pending", 0)
		tb.task("a", "retry", tb.asks(tb.waits("a"), parked.Park, false))
		tb.starts("other", "b")
		tb.task("b", "retry", tb.asks(tb.waits("b"), parked.Park, false))
		tb.starts("c")
		tb.task("c", "retry", tb.asks(tb.waits("c"), parked.Park, false))
		tb.wakes(2, parked.Ahead, 3, "a", "b")
		tb.wakes(1, parked.Ahead, -1)
		tb.starts("a") // b, which was woken with it, waits for a worker
		tb.asks(tb.waits("a"), parked.WaitInWorker, true)
		tb.starts("b")
		tb.asks(tb.waits("b"), parked.WaitInWorker, true)
		tb.wakes(2, parked.Ahead, 3) // two wait
		tb.wakes(3, parked.Ahead, 3, "c")
	})
}

// It has asked once, and is parked without asking again.
func TestATaskThatWaitedInItsWorkerInVainIsWoken(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.starts("a")
		due := tb.asks(tb.waits("a"), parked.WaitInWorker, false)
		tb.parks("b")
		for soon := false; !soon; soon = tb.wake(1, parked.Held).WakeAgain { // it has waited, and is on its way back into the queue
			tb.isOnItsWayUntil("a", time.Now().Add(14*time.Millisecond).UnixMicro())
		}
		tb.task("a", "retry", due)
		tb.wakes(1, parked.Held, 2, "a")
	})
}

// A lock that is held for long has one task wait for it, in whichever process.
func TestNoTaskIsWokenToAHeldLockWhileAnOlderOneWaits(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.starts("a")
		tb.asks(tb.waits("a"), parked.WaitInWorker, false)
		tb.parks("b")
		tb.wakes(1, parked.Held, 2)
		tb.ages("a") // its worker has died
		tb.wakes(1, parked.Held, 2, "b")
	})
}

// What asynq, an operator or the handler itself has done with a task since it was parked stays as it is.
func TestNoOtherTaskIsMoved(t *testing.T) {
	soon := func(seconds int64) int64 { return time.Now().Unix() + seconds }
	for name, change := range map[string]func(tb *table){
		"completed":                     func(tb *table) { tb.task("a", "completed", soon(0)) },
		"archived":                      func(tb *table) { tb.task("a", "archived", soon(0)) },
		"scheduled":                     func(tb *table) { tb.task("a", "scheduled", soon(15)) },
		"backing off for other reasons": func(tb *table) { tb.task("a", "retry", soon(60)) },
		"backing off, due before":       func(tb *table) { tb.task("a", "retry", soon(5)) },
		"in no set":                     func(tb *table) { tb.do("ZREM", in("retry"), "a") },
		"enqueued again":                func(tb *table) { tb.do("DEL", key("a")); tb.task("a", "scheduled", soon(15)) },
		"it has failed, after it waited": func(tb *table) {
			tb.starts("a")
			tb.asks(tb.waits("a"), parked.WaitInWorker, false)
			tb.task("a", "retry", soon(60))
		},
		"deleted": func(tb *table) {
			tb.do("ZREM", in("retry"), "a")
			tb.do("DEL", key("a"))
		},
		"it has failed, after it was woken": func(tb *table) {
			due := tb.rdb.ZScore(context.Background(), in("retry"), "a").Val()
			tb.wake(1, parked.Anyway)
			tb.task("a", "retry", int64(due))
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachTable(t, func(tb *table) {
				tb.parks("a", "b")
				change(tb)
				tb.wakes(1, parked.Anyway, 1, "b")
				tb.pendingAre("b")
				tb.listed("b")
			})
		})
	}
}

func TestATaskThatIsStillActiveIsWaitedForAndNotOvertaken(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.starts("a")
		tb.asks(tb.busy("a"), parked.Park, false)
		tb.staysFresh("a")
		if got := tb.wake(1, parked.Anyway); !got.WakeAgain || got.Left != 2 {
			t.Errorf("%+v", got)
		}
		tb.listed("a", "b")
		tb.ages("a") // its worker has died
		tb.wakes(1, parked.Anyway, 2, "b")
	})
}

func TestNoTaskIsWokenInAPausedQueue(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a")
		tb.do("SET", in("paused"), 1)
		tb.wakes(1, parked.Anyway, -1)
	})
}

func TestTasksThatCannotBeParked(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.asks(tb.busy("elsewhere"), parked.Unknown, false)
		tb.task("a", "retry", 1) // asynq has given its worker up
		tb.asks(tb.busy("a"), parked.Unknown, false)
		tb.starts("b")
		tb.do("HSET", key("b"), "group", "g")
		tb.asks(tb.busy("b"), parked.LeaveGrouped, false)
		tb.listed()
	})
}

// A task is away for longer the more tasks come before it, and its list lasts for longer than that.
func TestParkedTasksComeBackByTheClock(t *testing.T) {
	eachTable(t, func(tb *table) {
		for i, tt := range []struct{ mean, least, most time.Duration }{
			{time.Minute, 15 * time.Second, 19 * time.Second}, // nobody comes before it
			{10 * time.Second, 20 * time.Second, 26 * time.Second},
			{time.Second, 15 * time.Second, 19 * time.Second},
			{time.Hour, 450 * time.Second, 10 * time.Minute},
		} {
			id := strconv.Itoa(i)
			tb.starts(id)
			b := tb.busy(id)
			b.Mean = tt.mean
			if away := time.Unix(tb.asks(b, parked.Park, false), 0).Sub(b.Began); away < tt.least-time.Second || away > tt.most {
				t.Errorf("behind %d of %v: away for %v", i, tt.mean, away)
			}
		}
		for _, key := range []string{parked.ListOf(tb.want.Queue, tb.want.Lock), parked.LocksOf("default")} {
			if ttl, _ := tb.do("PTTL", key).(int64); ttl <= (10*time.Minute).Milliseconds() || ttl > (12*time.Minute).Milliseconds() {
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
			tb.do("DEL", key(id))
		}
		if got := tb.wake(1, parked.Anyway); !got.WakeAgain || got.Left != 50 {
			t.Errorf("%+v", got)
		}
		tb.wakes(1, parked.Anyway, 1, "149")
	})
}
