package script_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// keptPlace returns the place that is kept for a ticket, and for how long; 0 if there is none.
func keptPlace(d *scripttest.Driver, ticket string) (place int64, ttl time.Duration) {
	d.Helper()
	key := d.Keys.Kept(ticket)
	place, _ = d.Redis.Get(d.Context(), key).Int64()
	return place, d.Redis.PTTL(d.Context(), key).Val()
}

// wantKept checks a place whose time began a moment ago. No test uses times that differ by less than a factor of two.
func wantKept(d *scripttest.Driver, what, ticket string, want int64, keep time.Duration) {
	d.Helper()
	place, ttl := keptPlace(d, ticket)
	if place != want || ttl > keep || ttl < keep/2 {
		d.Errorf("%s: the place %d is kept for %v, want %d for %v", what, place, ttl, want, keep)
	}
}

func wantNotKept(d *scripttest.Driver, what, ticket string) {
	d.Helper()
	if place, ttl := keptPlace(d, ticket); place != 0 { // 0 marks an ended place
		d.Errorf("%s: the place %d is kept for %v", what, place, ttl)
	}
}

func wantOrder(d *scripttest.Driver, want ...string) {
	d.Helper()
	got := d.Look().Queue.InOrder()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			d.Errorf("the queue is %q, want %q", got, want)
			return
		}
	}
}

func TestWhoComesBackHasItsPlace(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		d.Fair("a")
		first := d.Keep("b", "t", time.Hour)
		wantKept(d, "queued", "t", first.Place, time.Hour)
		d.Fair("c")
		d.Want("cancel", d.CancelKeeping("b", "t", time.Minute), script.Done)
		wantKept(d, "away", "t", first.Place, time.Minute)
		wantOrder(d, "a", "c")
		d.Fair("d")
		back := d.Keep("b2", "t", time.Hour)
		d.WantQueued("back", back, 2, 4)
		if back.Place != first.Place {
			d.Errorf("back in the place %d, want %d", back.Place, first.Place)
		}
		wantOrder(d, "a", "b2", "c", "d")
		wantKept(d, "back", "t", first.Place, time.Hour)
		d.Release("held")
		d.Release("a")
		d.Want("poll", d.PollOne("b2"), script.Held)
		wantKept(d, "held", "t", first.Place, time.Hour)
		d.Want("release", d.ReleasePlace("b2", "t"), script.Done)
		wantNotKept(d, "released", "t")
		if id := d.Look().HolderID(); id != "c" {
			d.Errorf("%q has the lock, want c", id)
		}
	})
}

func TestTheLockPassesOverAPlaceThatIsKept(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		token := d.Fair("held").Grant.Token
		first := d.Keep("a", "t", time.Minute)
		d.CancelKeeping("a", "t", time.Minute)
		d.Fair("b")
		d.Release("held")
		all := d.Poll("b", "a").Tickets
		if all[0].Outcome != script.Held || all[0].Grant.Token <= token || all[1].Outcome != script.Over {
			d.Errorf("the next ticket and the one with the kept place got %+v after token %d", all, token)
		}
		d.Fair("c")
		d.WantQueued("back", d.Keep("a2", "t", time.Minute), 1, 2)
		d.Release("b")
		if id := d.Look().HolderID(); id != "a2" {
			d.Errorf("%q has the lock, want the one that came back", id)
		}
		if all := d.Poll("a2").Tickets; all[0].Grant.Token <= token || all[0].Grant.Token <= first.Place {
			d.Errorf("it has token %d, after %d and the place %d", all[0].Grant.Token, token, first.Place)
		}
	})
}

func TestAPlaceIsKeptForALimitedTime(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Acquire(scripttest.Acquire{ID: "held", Mode: core.Fair, Lease: time.Hour})
		d.Keep("a", "t", 10*time.Second)
		later(time.Second)
		d.CancelKeeping("a", "t", 3*time.Second)
		d.Fair("b")
		later(2 * time.Second)
		d.PollOne("b")
		d.WantQueued("back in time", d.Keep("a2", "t", 10*time.Second), 1, 2)
		d.CancelKeeping("a2", "t", 3*time.Second)
		for range 5 {
			later(time.Second)
			d.PollOne("b")
		}
		wantNotKept(d, "after its time", "t")
		d.WantQueued("back too late", d.Keep("a3", "t", 10*time.Second), 2, 2)
		// Its process is killed: it is dropped like any other, and may come back for as long as the place is kept.
		later(3 * time.Second)
		d.Kill("a3")
		d.Release("held")
		d.Release("b")
		d.Settle()
		d.WantNothingLeft()
		later(8 * time.Second)
		wantNotKept(d, "after its process was killed", "t")
	})
}

// The same applies to a lost hold, which the server no longer has.
func TestTheCancelOfALostHoldEndsItsPlace(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		first := d.Keep("a", "t", time.Hour)
		d.Release("held")
		token := d.Token()
		d.Redis.Del(d.Context(), d.Keys.Holder()) // as if it had expired
		d.Fair("b")
		d.Fair("c")
		d.CancelPlace("a", "t", token)
		wantNotKept(d, "lost", "t")
		again := d.Keep("a2", "t", time.Hour)
		if again.Place <= first.Place || again.Wait.Position != 2 {
			d.Errorf("used again, it is %+v after %+v", again, first)
		}
		d.CancelPlace("a", "t", token) // a late copy
		wantKept(d, "used again", "t", again.Place, time.Hour)
	})
}

// Another call may have got a place of its own under the same name since.
func TestTheCancelOfAWaitingCallLeavesANewerPlace(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		place := d.Keep("a", "t", time.Minute).Place
		d.Redis.Set(d.Context(), d.Keys.Kept("t"), place+1, time.Hour)
		d.CancelKeeping("a", "t", time.Minute)
		wantKept(d, "cancelled", "t", place+1, time.Hour)
	})
}

// A score that another client has put into the queue must not get into the counter of all locks.
func TestAStrangersScoreDoesNotSpoilTheCounter(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		for _, score := range []string{"inf", "1e300", "9000000000000000", "9007199254740991", "9007199254740992"} {
			for _, try := range []bool{false, true} {
				d.Redis.FlushAll(d.Context())
				d.Fair("held")
				d.Redis.ZAdd(d.Context(), d.Keys.Queue(), member("theirs", score))
				_, _ = d.AcquireOnce(scripttest.Acquire{ID: "a", Mode: core.Fair, Try: try, Place: "t", KeepPlace: time.Minute})
				if last, ok := d.Look().Counter(); !ok || last > time.Now().Add(time.Hour).UnixMicro() {
					d.Errorf("a score of %s makes the counter %q", score, d.Look().Fence.Fields[""])
				}
				d.CancelKeeping("a", "t", time.Minute)
				if place := d.Redis.Get(d.Context(), d.Keys.Kept("t")).Val(); !try && place != "" {
					if _, ok := scripttest.Digits(place); !ok {
						d.Errorf("a score of %s makes the kept place %q", score, place)
					}
				}
			}
		}
	})
}
