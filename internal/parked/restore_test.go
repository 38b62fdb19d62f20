package parked_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/parked"
)

// archives parks a task on its last attempt, and archives and counts it as asynq does.
func (tb *table) archives(id string, since time.Duration) {
	tb.t.Helper()
	tb.starts(id)
	b := tb.busy(id)
	b.Last = true
	tb.asks(b, parked.Park, false)
	tb.isArchived(id, since)
}

func (tb *table) isArchived(id string, since time.Duration) {
	tb.t.Helper()
	now := time.Now().UTC()
	tb.task(id, "archived", now.Add(-since).Unix())
	for _, key := range counters(now) {
		tb.do("INCR", key)
	}
}

func counters(now time.Time) (keys []string) {
	for _, what := range []string{"processed", "failed"} {
		keys = append(keys, in(what), in(what+":"+now.Format(time.DateOnly)))
	}
	return keys
}

func (tb *table) counted(want string) {
	tb.t.Helper()
	for _, key := range counters(time.Now().UTC()) {
		if n := tb.do("GET", key); n != want {
			tb.t.Errorf("%s is %v, want %s", key, n, want)
		}
	}
}

// restores restores task a as the process does that has set it aside.
func (tb *table) restores(wantActive bool) {
	tb.t.Helper()
	isParked := tb.do("HEXISTS", key("a"), "lockmw") == int64(1)
	if active, err := tb.store.Restore("default", "a", tb.began, time.Unix(3e9, 0), isParked); active != wantActive || err != nil {
		tb.t.Errorf("restore: %v %v, want %v", active, err, wantActive)
	}
}

func (tb *table) isIn(id, state, set string) {
	tb.t.Helper()
	if got := tb.do("HGET", key(id), "state"); got != state {
		tb.t.Errorf("%s is %v, want %s", id, got, state)
	}
	for _, other := range []string{"archived", "retry"} {
		if there := tb.do("ZSCORE", in(other), id) != nil; there != (other == set) {
			tb.t.Errorf("%s is in the set %s: %v", id, other, there)
		}
	}
}

func TestATaskThatWasSetAsideIsRestoredAndNotCountedAsFailed(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.starts("a")
		tb.restores(true)
		tb.isArchived("a", 0)
		tb.isArchived("other", 0)
		for range 2 { // the answer was lost
			tb.restores(false)
			tb.isIn("a", "retry", "retry")
			if due := tb.rdb.ZScore(t.Context(), in("retry"), "a").Val(); due != 3e9 {
				tb.t.Errorf("due at %v", due)
			}
			tb.counted("1")
		}
	})
}

// An operator may archive the task afterwards, or its process may end before.
func TestOnlyATaskThatAsynqHasArchivedForItsLockIsRestored(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(tb *table)
		state, set string // what it stays
	}{
		"by an operator": {func(tb *table) {
			tb.restores(false)
			tb.isArchived("a", 0)
			tb.wakes(1, parked.Anyway, 0)
		}, "archived", "archived"},
		"by an operator, woken": {func(tb *table) {
			tb.ages("a")
			tb.wake(1, parked.Anyway)
			tb.isArchived("a", 0)
			tb.wakes(1, parked.Anyway, 0)
			tb.began = time.Now().Add(time.Minute)
		}, "archived", "archived"},
		"in an earlier attempt": {func(tb *table) { tb.isArchived("a", time.Hour) }, "archived", "archived"},
		"by a later attempt": {func(tb *table) {
			began := tb.began
			tb.archives("a", 0)
			tb.began = began
		}, "archived", "archived"},
		"run again by an operator": {func(tb *table) { tb.task("a", "pending", 0) }, "pending", ""},
		"deleted":                  {func(tb *table) { tb.do("DEL", key("a")); tb.do("ZREM", in("archived"), "a") }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			eachTable(t, func(tb *table) {
				tb.archives("a", 0)
				tt.change(tb)
				tb.restores(false)
				if tt.state != "" {
					tb.isIn("a", tt.state, tt.set)
				}
			})
		})
	}
}

func TestATaskThatWasSetAsideIsWokenIfItsProcessDied(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.archives("a", 0)
		tb.staysFresh("a")
		if got := tb.wake(1, parked.Anyway); !got.WakeAgain { // its process may be about to restore it
			t.Errorf("%+v", got)
		}
		tb.isIn("a", "archived", "archived")
		tb.ages("a")
		tb.wakes(1, parked.Anyway, 1, "a")
		tb.isIn("a", "pending", "")
		tb.restores(false)
		tb.pendingAre("a")
	})
}

func TestAFailureOfAnotherDayStaysCounted(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.began = time.Now().Add(-72 * time.Hour)
		tb.isArchived("a", 48*time.Hour)
		tb.restores(false)
		tb.isIn("a", "retry", "retry")
		tb.counted("1")
	})
}
