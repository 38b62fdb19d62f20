package parked_test

import (
	"testing"

	"github.com/lockmw/go/internal/parked"
)

// at returns the same queue with the list of another lock.
func (tb *table) at(lock string) *table {
	other := *tb
	other.want.Lock = lock
	return &other
}

// A task with two nested locks was woken for the inner one, and has met the outer one busy.
func TestATaskThatWaitsForAnotherLockKeepsNoPlace(t *testing.T) {
	for name, parks := range map[string]func(outer *table){
		"parked":        func(outer *table) { outer.task("t", "retry", outer.asks(outer.busy("t"), parked.Park, true)) },
		"in its worker": func(outer *table) { outer.asks(outer.waits("t"), parked.WaitInWorker, true) },
		"woken": func(outer *table) {
			outer.task("t", "retry", outer.asks(outer.busy("t"), parked.Park, true))
			outer.wakes(1, parked.Anyway, 1, "t")
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachTable(t, func(inner *table) {
				outer := inner.at("lockmw:{order:1}")
				inner.parks("t")
				inner.wakes(1, parked.Anyway, 1, "t")
				inner.starts("t")
				parks(outer)
				outer.listed("t")
				inner.parks("u")
				inner.reads("1 u parked")
				before := inner.do("HGET", key("t"), "lockmw")
				if got := inner.wake(1, parked.Anyway); !got.Moved || got.Left != 1 {
					t.Errorf("%+v, want u woken and 1 left", got)
				}
				inner.isIn("u", "pending", "")
				inner.listed("u")
				if after := inner.do("HGET", key("t"), "lockmw"); after != before {
					t.Errorf("the task that waits for the other lock has changed from %v to %v", before, after)
				}
				outer.listed("t")
				inner.starts("t") // it gets the outer lock, and returns to its place
				inner.asks(inner.busy("t"), parked.Park, name == "woken")
				inner.listed("t", "u")
			})
		})
	}
}

// An older process writes no lock, and leaves one of an earlier attempt as it is.
func TestATaskThatAnOlderProcessParkedIsWoken(t *testing.T) {
	eachTable(t, func(tb *table) {
		tb.parks("a", "b")
		tb.do("HDEL", key("a"), "lockmw_lock")
		tb.do("HSET", key("b"), "lockmw_lock", "1 lockmw:{order:1}")
		tb.reads("1 a parked", "2 b parked")
		tb.wakes(2, parked.Anyway, 2, "a", "b")
	})
}
