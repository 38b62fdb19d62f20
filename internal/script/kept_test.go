package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// keptPlace is the place that is kept for a ticket, and for how long; 0 if none is.
func keptPlace(d *scripttest.Driver, ticket string) (place int64, ttl time.Duration) {
	d.Helper()
	key := d.Keys.Kept(ticket)
	place, _ = d.Redis.Get(d.Context(), key).Int64()
	return place, d.Redis.PTTL(d.Context(), key).Val()
}

func wantKept(d *scripttest.Driver, what, ticket string, want int64, keep time.Duration) {
	d.Helper()
	place, ttl := keptPlace(d, ticket)
	if place != want || ttl > keep || ttl < keep-2*time.Second {
		d.Errorf("%s: the place %d is kept for %v, want %d for %v", what, place, ttl, want, keep)
	}
}

func wantNotKept(d *scripttest.Driver, what, ticket string) {
	d.Helper()
	if place, ttl := keptPlace(d, ticket); place != 0 { // 0 marks one that is over
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
			d.Errorf("the next one and the one that is away got %+v after token %d", all, token)
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

// A try does not wait. Those that come after it stand behind it when it comes back.
func TestATryKeepsAPlaceWithoutWaiting(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		try := scripttest.Acquire{ID: "a", Mode: core.Fair, Try: true, Place: "t", KeepPlace: time.Minute}
		got := d.Acquire(try)
		if got.Outcome != script.Queued || got.Wait.Position != 0 || got.Wait.Queued != 0 {
			d.Errorf("a try: %+v", got)
		}
		place, _ := keptPlace(d, "t")
		wantKept(d, "after a try", "t", place, time.Minute)
		if sc := d.Look(); place == 0 || sc.Queue.Exists() || sc.Tickets.Exists() {
			d.Errorf("the place is %d, and there are %v", place, sc)
		}
		if got := d.Fair("b"); got.Place <= place {
			d.Errorf("who came later has the place %d, the try had %d", got.Place, place)
		}
		for _, id := range []string{"a", "a1"} { // once more, and a new try with the same ticket
			try.ID = id
			d.Acquire(try)
			wantKept(d, "after a second try", "t", place, time.Minute)
		}
		wantOrder(d, "b")
		d.WantQueued("who waits then", d.Keep("a2", "t", time.Minute), 1, 2)
		wantOrder(d, "a2", "b")
	})
}

func TestPlacesOfDifferentTicketsAreTheirOwn(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		places := make(map[string]int64)
		for i, ticket := range []string{"t", "u", "{v}", "a b"} {
			places[ticket] = d.Keep(fmt.Sprint("id", i), ticket, time.Minute).Place
		}
		d.CancelKeeping("id1", "u", time.Hour)
		for ticket, place := range places {
			keep := time.Minute
			if ticket == "u" {
				keep = time.Hour
			}
			wantKept(d, ticket, ticket, place, keep)
		}
		d.Cancel("id0") // which keeps nothing from now on
		wantKept(d, "a cancel that says nothing of it", "t", places["t"], time.Minute)
		other := d.Sibling("another lock")
		if n := d.Redis.Exists(d.Context(), other.Kept("t")).Val(); n > 0 {
			d.Error("the ticket has a place at another lock")
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
		for range 4 {
			later(script.PollInterval)
			d.PollOne("b")
		}
		d.Release("held")
		d.Release("b")
		d.Settle()
		d.WantNothingLeft()
		later(8 * time.Second)
		wantNotKept(d, "after its process was killed", "t")
	})
}

func TestScriptsOfAKeptPlaceThatRunTwiceOrLate(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		first := d.Keep("a", "t", time.Hour)
		if again := d.Keep("a", "t", time.Hour); again.Place != first.Place || again.Wait.Position != 1 || again.Wait.Queued != 1 {
			d.Errorf("the second run: %+v, the first: %+v", again, first)
		}
		d.Fair("b")
		for range 2 {
			d.CancelKeeping("a", "t", time.Minute)
			wantKept(d, "cancelled", "t", first.Place, time.Minute)
		}
		d.Want("a late acquire", d.Keep("a", "t", time.Hour).Outcome, script.Over)
		wantKept(d, "after a late acquire", "t", first.Place, time.Minute)
		wantOrder(d, "b")
		back := d.Keep("a2", "t", time.Hour)
		d.CancelKeeping("a", "t", time.Second) // a late copy
		wantKept(d, "a late cancel", "t", back.Place, time.Hour)
		wantOrder(d, "a2", "b")
		d.Release("held")
		d.Want("a late release of the old id", d.ReleasePlace("a", "t"), script.NotHeld)
		wantKept(d, "a late release of the old id", "t", back.Place, time.Hour)
		d.Want("release", d.ReleasePlace("a2", "t"), script.Done)
		wantNotKept(d, "released", "t")
		d.CancelKeeping("a2", "t", time.Minute) // a late copy
		wantNotKept(d, "a cancel of what was released", "t")
	})
}

// Once its hold is over, a ticket stands behind all who wait when it is used again.
func TestATicketIsGoodForOneHold(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		first := d.Keep("a", "t", time.Hour)
		d.Fair("b")
		d.Release("held")
		d.ReleasePlace("a", "t")
		wantNotKept(d, "released", "t")
		again := d.Keep("a2", "t", time.Hour)
		if again.Place <= first.Place || again.Wait.Position != 1 {
			d.Errorf("used again, it is %+v after %+v", again, first)
		}
		wantKept(d, "used again", "t", again.Place, time.Hour)
		d.Fair("c")
		d.CancelKeeping("a", "t", time.Minute) // a late copy
		wantKept(d, "a late cancel", "t", again.Place, time.Hour)
		wantOrder(d, "a2", "c")
	})
}

// A release that is not answered is followed by a cancel, which does what the release may not have done.
func TestACancelInThePlaceOfARelease(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		first := d.Keep("a", "t", time.Hour)
		d.CancelPlace("b", "t", first.Place-1) // of a hold before that
		wantKept(d, "another's", "t", first.Place, time.Hour)
		d.Release("held")
		token := d.Token()
		for range 2 {
			d.CancelPlace("a", "t", token)
			wantNotKept(d, "cancelled", "t")
			if d.Look().HolderID() != "" {
				d.Error("it is still held")
			}
		}
		d.Fair("held2")
		again := d.Keep("a2", "t", time.Hour)
		d.CancelPlace("a", "t", token) // late
		wantKept(d, "a late copy", "t", again.Place, time.Hour)
	})
}

// So is a hold that was lost: the server does not have it any more.
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

// Two calls with one ticket: the place that is kept is that of the first one, and a call that gives
// up does not bring back what has been used.
func TestTheSameTicketTwice(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		first := d.Keep("a", "t", time.Hour)
		second := d.Keep("b", "t", time.Hour)
		if second.Place != first.Place {
			d.Errorf("the second has the place %d, the first %d", second.Place, first.Place)
		}
		d.Release("held")
		one, other := "a", "b"
		if d.Look().HolderID() == "b" {
			one, other = other, one
		}
		d.ReleasePlace(one, "t")
		wantNotKept(d, "released", "t")
		d.CancelKeeping(other, "t", time.Minute)
		wantNotKept(d, "when the other gives up", "t")
		d.Settle()
		d.WantNothingLeft()
	})
}

// A cancel that overtakes its acquire leaves the place that was kept before.
func TestAKeptPlaceOutlivesACancelThatOvertakes(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		first := d.Keep("a", "t", time.Minute)
		d.CancelKeeping("a", "t", time.Minute)
		d.CancelKeeping("a2", "t", time.Hour)
		d.Want("the acquire", d.Keep("a2", "t", time.Hour).Outcome, script.Over)
		wantKept(d, "overtaken", "t", first.Place, time.Minute)
	})
}

func TestATicketThatIsHadAtOnceNeedsNoPlace(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.WantHeld("a free lock", d.Keep("a", "t", time.Minute))
		wantNotKept(d, "a free lock", "t")
		d.Fair("b")
		d.WantHeld("the same id again", d.Keep("a", "t", time.Minute))
		wantNotKept(d, "a repeated acquire", "t")
		d.Want("release", d.ReleasePlace("a", "t"), script.Done)
		d.Release("b")
		d.WantNothingLeft()
	})
}

// A ticket that got lost keeps its place under its new id.
func TestALostTicketOfAKeptPlace(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Fair("held")
		lost := d.Keep("a", "t", time.Minute)
		d.Redis.Del(d.Context(), d.Keys.Queue(), d.Keys.Tickets(), d.Keys.Kept("t")) // as after FLUSHALL, but for the holder
		d.Fair("b")
		back := d.Acquire(scripttest.Acquire{ID: "a2", Mode: core.Fair, Predecessor: "a", PredecessorPlace: lost.Place, Place: "t", KeepPlace: time.Hour})
		d.WantQueued("back", back, 1, 2)
		wantKept(d, "back", "t", lost.Place, time.Hour)
	})
}

// Kept places and tokens come of one counter, and neither may run into the other.
func TestKeptPlacesLeaveTokensRising(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		last := int64(0)
		for range 20 {
			got := d.Fair("a")
			if got.Grant.Token <= last {
				d.Errorf("token %d after %d", got.Grant.Token, last)
			}
			d.Acquire(scripttest.Acquire{ID: "b", Mode: core.Fair, Try: true, Place: "t", KeepPlace: time.Minute})
			place, _ := keptPlace(d, "t")
			last = max(got.Grant.Token, place)
			d.Release("a")
			d.Redis.Del(d.Context(), d.Keys.Kept("t"))
		}
	})
}

// A score that somebody else has put into the queue must not get into the counter of all locks.
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
