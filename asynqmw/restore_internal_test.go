package asynqmw

import (
	"strconv"
	"testing"
	"time"

	"github.com/lockmw/go/internal/parked"
)

// asideTable is a table with a task that asynq has archived, as its lock was busy on its last attempt.
func asideTable(tb *table) (restores func(active bool)) {
	tb.t.Helper()
	tb.task("a", "active", "")
	c := tb.call("a")
	c.last = true
	tb.asks(c, parkAnswer{what: parkTask})
	g, due := &guard{queues: tb.rdb}, time.Unix(3e9, 0)
	restores = func(want bool) {
		tb.t.Helper()
		if active, err := g.restore(&attempt{queue: "default", id: "a"}, "Na", due); active != want || err != nil {
			tb.t.Errorf("restore: %v %v, want %v", active, err, want)
		}
	}
	restores(true)
	tb.archives("a", "asynqmw: parked (Na): busy")
	return restores
}

// archives archives a task and counts it, as asynq does.
func (tb *table) archives(id, why string) {
	tb.t.Helper()
	tb.task(id, "archived", why)
	now := time.Now().UTC()
	tb.do("ZADD", parked.InQueue("default", "archived"), now.Unix(), id)
	for _, key := range counters(now) {
		tb.do("INCR", key)
	}
}

func counters(now time.Time) (keys []string) {
	for _, what := range []string{"processed", "failed"} {
		keys = append(keys, parked.InQueue("default", what), parked.InQueue("default", what+":"+now.Format(time.DateOnly)))
	}
	return keys
}

func (tb *table) isIn(id, state, set string) {
	tb.t.Helper()
	if got := tb.do("HGET", parked.TaskPrefix("default")+id, "state"); got != state {
		tb.t.Errorf("%s is %v, want %s", id, got, state)
	}
	for _, other := range []string{"archived", "retry"} {
		if there := tb.do("ZSCORE", parked.InQueue("default", other), id) != nil; there != (other == set) {
			tb.t.Errorf("%s is in the set %s: %v", id, other, there)
		}
	}
}

func TestATaskThatWasSetAsideIsRestoredAndNotCountedAsFailed(t *testing.T) {
	eachTable(t, func(tb *table) {
		restores := asideTable(tb)
		tb.archives("other", "no connection to the database")
		for range 2 { // the answer was lost
			restores(false)
			tb.isIn("a", "retry", "retry")
			if due := tb.do("ZSCORE", parked.InQueue("default", "retry"), "a"); due != 3e9 && due != "3000000000" {
				tb.t.Errorf("due at %v", due)
			}
			for _, key := range counters(time.Now().UTC()) {
				if n := tb.do("GET", key); n != "1" {
					tb.t.Errorf("%s is %v, want 1", key, n)
				}
			}
		}
		tb.promotes(1, callAnyway, promotion{moved: 1, left: 1})
		tb.pendingAre("a")
	})
}

// An operator may archive the task afterwards, or its process may end before.
func TestOnlyATaskThatAsynqHasArchivedForItsLockIsRestored(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(tb *table, restores func(bool))
		state, set string // what it stays
	}{
		"by an operator": {func(tb *table, restores func(bool)) { restores(false); tb.archives("a", "asynqmw: parked (Na): busy") }, "archived", "archived"},
		"by an operator, called": {func(tb *table, restores func(bool)) {
			restores(false)
			tb.promotes(1, callAnyway, promotion{moved: 1, left: 1})
			tb.archives("a", "asynqmw: parked (Na): busy")
		}, "archived", "archived"},
		"for another reason":       {func(tb *table, _ func(bool)) { tb.archives("a", "context deadline exceeded") }, "archived", "archived"},
		"run again by an operator": {func(tb *table, _ func(bool)) { tb.task("a", "pending", "asynqmw: parked (Na): busy") }, "pending", ""},
		"deleted": {func(tb *table, _ func(bool)) {
			tb.do("DEL", parked.TaskPrefix("default")+"a")
			tb.do("ZREM", parked.InQueue("default", "archived"), "a")
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			eachTable(t, func(tb *table) {
				restores := asideTable(tb)
				tt.change(tb, restores)
				tb.ages("a")
				pending := tb.do("LRANGE", parked.InQueue("default", "pending"), 0, -1).([]any)
				restores(false)
				tb.promotes(1, callAnyway, promotion{})
				if tt.state != "" {
					tb.isIn("a", tt.state, tt.set)
				}
				if now := tb.do("LRANGE", parked.InQueue("default", "pending"), 0, -1).([]any); len(now) != len(pending) {
					tb.t.Errorf("pending: %v", now)
				}
			})
		})
	}
}

func TestATaskThatWasSetAsideIsCalledIfItsProcessDied(t *testing.T) {
	eachTable(t, func(tb *table) {
		restores := asideTable(tb)
		tb.staysFresh("a")
		tb.promotes(1, callAnyway, promotion{left: 1, soon: true}) // its process may be about to restore it
		tb.isIn("a", "archived", "archived")
		tb.ages("a")
		tb.promotes(1, callAnyway, promotion{moved: 1, left: 1})
		tb.isIn("a", "pending", "")
		restores(false)
		tb.pendingAre("a")
	})
}

func TestAFailureOfAnotherDayStaysCounted(t *testing.T) {
	eachTable(t, func(tb *table) {
		restores := asideTable(tb)
		tb.do("ZADD", parked.InQueue("default", "archived"), strconv.FormatInt(time.Now().Unix()-2*86400, 10), "a")
		restores(false)
		tb.isIn("a", "retry", "retry")
		for _, key := range counters(time.Now().UTC()) {
			if n := tb.do("GET", key); n != "1" {
				tb.t.Errorf("%s is %v, want 1", key, n)
			}
		}
	})
}
