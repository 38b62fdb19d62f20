package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// keptPlace is the place that is kept for a ticket, and for how long; 0 if none is.
func (d *desk) keptPlace(ticket string) (place int64, ttl time.Duration) {
	d.Helper()
	key := d.name.kept(ticket)
	place, _ = d.rdb.Get(d.Context(), key).Int64()
	return place, d.rdb.PTTL(d.Context(), key).Val()
}

func (d *desk) wantKept(what, ticket string, want int64, keep time.Duration) {
	d.Helper()
	place, ttl := d.keptPlace(ticket)
	if place != want || ttl > keep || ttl < keep-2*time.Second {
		d.Errorf("%s: the place %d is kept for %v, want %d for %v", what, place, ttl, want, keep)
	}
}

func (d *desk) wantNotKept(what, ticket string) {
	d.Helper()
	if place, ttl := d.keptPlace(ticket); place != 0 { // 0 marks one that is over
		d.Errorf("%s: the place %d is kept for %v", what, place, ttl)
	}
}

func (d *desk) fair(id string) told {
	d.Helper()
	return d.asks(ask{id: id, mode: core.Fair})
}

// givesUp releases a hold whose ticket had a place.
func (d *desk) givesUp(id, ticket string) int64 {
	d.Helper()
	return d.run(d.scripts.release, d.keys(d.name.done(id), d.name.kept(ticket)), id, 0, 0, doneMillis).int()
}

func (d *desk) wantOrder(want ...string) {
	d.Helper()
	got := d.look().queue.inOrder()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			d.Errorf("the queue is %q, want %q", got, want)
			return
		}
	}
}

func TestWhoComesBackHasItsPlace(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.fair("held")
		d.fair("a")
		first := d.keeps("b", "t", time.Hour)
		d.wantKept("queued", "t", first.place, time.Hour)
		d.fair("c")
		d.wantKind("cancel", d.goesAway("b", "t", time.Minute), 1)
		d.wantKept("away", "t", first.place, time.Minute)
		d.wantOrder("a", "c")
		d.fair("d")
		back := d.keeps("b2", "t", time.Hour)
		d.wantQueued("back", back, 2, 4)
		if back.place != first.place {
			d.Errorf("back in the place %d, want %d", back.place, first.place)
		}
		d.wantOrder("a", "b2", "c", "d")
		d.wantKept("back", "t", first.place, time.Hour)
		d.release("held", 0)
		d.release("a", 0)
		d.wantKind("poll", d.poll("b2"), 1)
		d.wantKept("held", "t", first.place, time.Hour)
		d.wantKind("release", d.givesUp("b2", "t"), 1)
		d.wantNotKept("released", "t")
		if id := d.look().holds(); id != "c" {
			d.Errorf("%q has the lock, want c", id)
		}
	})
}

func TestTheLockPassesOverAPlaceThatIsKept(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		token := d.fair("held").token
		first := d.keeps("a", "t", time.Minute)
		d.goesAway("a", "t", time.Minute)
		d.fair("b")
		d.release("held", 0)
		all, _ := d.polls("b", "a")
		if all[0].kind != 1 || all[0].token <= token || all[1].kind != -1 {
			d.Errorf("the next one and the one that is away are told %+v after token %d", all, token)
		}
		d.fair("c")
		d.wantQueued("back", d.keeps("a2", "t", time.Minute), 1, 2)
		d.release("b", 0)
		if id := d.look().holds(); id != "a2" {
			d.Errorf("%q has the lock, want the one that came back", id)
		}
		if all, _ := d.polls("a2"); all[0].token <= token || all[0].token <= first.place {
			d.Errorf("it has token %d, after %d and the place %d", all[0].token, token, first.place)
		}
	})
}

// A try does not wait. Those that come after it stand behind it when it comes back.
func TestATryKeepsAPlaceWithoutWaiting(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.fair("held")
		try := ask{id: "a", mode: core.Fair, try: true, ticket: "t", keep: time.Minute}
		got := d.asks(try)
		if got.kind != 0 || got.position != 0 || got.total != 0 {
			d.Errorf("a try: %+v", got)
		}
		place, _ := d.keptPlace("t")
		d.wantKept("after a try", "t", place, time.Minute)
		if sc := d.look(); place == 0 || sc.queue.exists() || sc.tickets.exists() {
			d.Errorf("the place is %d, and there are %v", place, sc)
		}
		if got := d.fair("b"); got.place <= place {
			d.Errorf("who came later has the place %d, the try had %d", got.place, place)
		}
		for _, id := range []string{"a", "a1"} { // once more, and a new try with the same ticket
			try.id = id
			d.asks(try)
			d.wantKept("after a second try", "t", place, time.Minute)
		}
		d.wantOrder("b")
		d.wantQueued("who waits then", d.keeps("a2", "t", time.Minute), 1, 2)
		d.wantOrder("a2", "b")
	})
}

func TestPlacesOfDifferentTicketsAreTheirOwn(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.fair("held")
		places := make(map[string]int64)
		for _, ticket := range []string{"t", "u", "{v}", "a b"} {
			places[ticket] = d.keeps("id-"+ticket, ticket, time.Minute).place
		}
		d.goesAway("id-u", "u", time.Hour)
		for ticket, place := range places {
			keep := time.Minute
			if ticket == "u" {
				keep = time.Hour
			}
			d.wantKept(ticket, ticket, place, keep)
		}
		d.cancel("id-t") // which keeps nothing from now on
		d.wantKept("a cancel that says nothing of it", "t", places["t"], time.Minute)
		other := d.name
		other.holder = "lockmw:{another lock}"
		if n := d.rdb.Exists(d.Context(), other.kept("t")).Val(); n > 0 {
			d.Error("the ticket has a place at another lock")
		}
	})
}

func TestAPlaceIsKeptForALimitedTime(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.asks(ask{id: "held", mode: core.Fair, lease: time.Hour})
		d.keeps("a", "t", 10*time.Second)
		later(time.Second)
		d.goesAway("a", "t", 3*time.Second)
		d.fair("b")
		later(2 * time.Second)
		d.poll("b")
		d.wantQueued("back in time", d.keeps("a2", "t", 10*time.Second), 1, 2)
		d.goesAway("a2", "t", 3*time.Second)
		for range 5 {
			later(time.Second)
			d.poll("b")
		}
		d.wantNotKept("after its time", "t")
		d.wantQueued("back too late", d.keeps("a3", "t", 10*time.Second), 2, 2)
		// Its process is killed: it is dropped like any other, and may come back for as long as the place is kept.
		for range 4 {
			later(pollInterval)
			d.poll("b")
		}
		d.release("held", 0)
		d.release("b", 0)
		d.settles()
		d.wantNothingLeft()
		later(8 * time.Second)
		d.wantNotKept("after its process was killed", "t")
	})
}

func TestScriptsOfAKeptPlaceThatRunTwiceOrLate(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.fair("held")
		first := d.keeps("a", "t", time.Hour)
		if again := d.keeps("a", "t", time.Hour); again.place != first.place || again.position != 1 || again.total != 1 {
			d.Errorf("the second run: %+v, the first: %+v", again, first)
		}
		d.fair("b")
		for range 2 {
			d.goesAway("a", "t", time.Minute)
			d.wantKept("cancelled", "t", first.place, time.Minute)
		}
		d.wantKind("a late acquire", d.keeps("a", "t", time.Hour).kind, -1)
		d.wantKept("after a late acquire", "t", first.place, time.Minute)
		d.wantOrder("b")
		back := d.keeps("a2", "t", time.Hour)
		d.goesAway("a", "t", time.Second) // a late copy
		d.wantKept("a late cancel", "t", back.place, time.Hour)
		d.wantOrder("a2", "b")
		d.release("held", 0)
		d.wantKind("a late release of the old id", d.givesUp("a", "t"), 0)
		d.wantKept("a late release of the old id", "t", back.place, time.Hour)
		d.wantKind("release", d.givesUp("a2", "t"), 1)
		d.wantNotKept("released", "t")
		d.goesAway("a2", "t", time.Minute) // a late copy
		d.wantNotKept("a cancel of what was released", "t")
	})
}

// Once its hold is over, a ticket stands behind all who wait when it is used again.
func TestATicketIsGoodForOneHold(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.fair("held")
		first := d.keeps("a", "t", time.Hour)
		d.fair("b")
		d.release("held", 0)
		d.givesUp("a", "t")
		d.wantNotKept("released", "t")
		again := d.keeps("a2", "t", time.Hour)
		if again.place <= first.place || again.position != 1 {
			d.Errorf("used again, it is %+v after %+v", again, first)
		}
		d.wantKept("used again", "t", again.place, time.Hour)
		d.fair("c")
		d.goesAway("a", "t", time.Minute) // a late copy
		d.wantKept("a late cancel", "t", again.place, time.Hour)
		d.wantOrder("a2", "c")
	})
}

// A release that is not answered is followed by a cancel, which does what the release may not have done.
func TestACancelInThePlaceOfARelease(t *testing.T) {
	cancel := func(d *desk, id string) {
		d.Helper()
		d.run(d.scripts.cancel, d.keys(d.name.done(id), d.name.kept("t")), id, doneMillis, -doneMillis)
	}
	onTidyDesk(t, func(d *desk) {
		d.fair("held")
		first := d.keeps("a", "t", time.Hour)
		cancel(d, "b") // nobody's
		d.wantKept("another's", "t", first.place, time.Hour)
		d.release("held", 0)
		for range 2 {
			cancel(d, "a")
			d.wantNotKept("cancelled", "t")
			if d.look().holds() != "" {
				d.Error("it is still held")
			}
		}
		d.fair("held2")
		again := d.keeps("a2", "t", time.Hour)
		cancel(d, "a") // late
		d.wantKept("a late copy", "t", again.place, time.Hour)
	})
}

// Two calls with one ticket: the place that is kept is that of the one that asked first, and a call that gives
// up does not bring back what has been used.
func TestTheSameTicketTwice(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.fair("held")
		first := d.keeps("a", "t", time.Hour)
		second := d.keeps("b", "t", time.Hour)
		if second.place != first.place {
			d.Errorf("the second has the place %d, the first %d", second.place, first.place)
		}
		d.release("held", 0)
		one, other := "a", "b"
		if d.look().holds() == "b" {
			one, other = other, one
		}
		d.givesUp(one, "t")
		d.wantNotKept("released", "t")
		d.goesAway(other, "t", time.Minute)
		d.wantNotKept("when the other gives up", "t")
		d.settles()
		d.wantNothingLeft()
	})
}

// A cancel that overtakes its acquire leaves the place that was kept before.
func TestAKeptPlaceOutlivesACancelThatOvertakes(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.fair("held")
		first := d.keeps("a", "t", time.Minute)
		d.goesAway("a", "t", time.Minute)
		d.goesAway("a2", "t", time.Hour)
		d.wantKind("the acquire", d.keeps("a2", "t", time.Hour).kind, -1)
		d.wantKept("overtaken", "t", first.place, time.Minute)
	})
}

func TestATicketThatIsHadAtOnceNeedsNoPlace(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.wantHeld("a free lock", d.keeps("a", "t", time.Minute))
		d.wantNotKept("a free lock", "t")
		d.fair("b")
		d.wantHeld("the same id again", d.keeps("a", "t", time.Minute))
		d.wantNotKept("a repeated acquire", "t")
		d.wantKind("release", d.givesUp("a", "t"), 1)
		d.release("b", 0)
		d.wantNothingLeft()
	})
}

// A ticket that got lost keeps its place under its new id.
func TestALostTicketOfAKeptPlace(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.fair("held")
		lost := d.keeps("a", "t", time.Minute)
		d.rdb.Del(d.Context(), d.name.queue(), d.name.tickets(), d.name.kept("t")) // as after FLUSHALL, but for the holder
		d.fair("b")
		back := d.asks(ask{id: "a2", mode: core.Fair, former: "a", place: lost.place, mark: true, ticket: "t", keep: time.Hour})
		d.wantQueued("back", back, 1, 2)
		d.wantKept("back", "t", lost.place, time.Hour)
	})
}

// Kept places and tokens come of one counter, and neither may run into the other.
func TestKeptPlacesLeaveTokensRising(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		last := int64(0)
		for range 20 {
			got := d.fair("a")
			if got.token <= last {
				d.Errorf("token %d after %d", got.token, last)
			}
			d.asks(ask{id: "b", mode: core.Fair, try: true, ticket: "t", keep: time.Minute})
			place, _ := d.keptPlace("t")
			last = max(got.token, place)
			d.release("a", 0)
			d.rdb.Del(d.Context(), d.name.kept("t"))
		}
	})
}

// A score that somebody else has put into the queue must not get into the counter of all locks.
func TestAStrangersScoreDoesNotSpoilTheCounter(t *testing.T) {
	onDesk(t, func(d *desk) {
		for _, score := range []string{"inf", "1e300", "9000000000000000", "9007199254740991", "9007199254740992"} {
			for _, try := range []bool{false, true} {
				d.rdb.FlushAll(d.Context())
				d.fair("held")
				d.rdb.ZAdd(d.Context(), d.name.queue(), zAt("theirs", score))
				_, _ = d.ask(ask{id: "a", mode: core.Fair, try: try, ticket: "t", keep: time.Minute})
				if last, ok := d.look().counter(); !ok || last > time.Now().Add(time.Hour).UnixMicro() {
					d.Errorf("a score of %s makes the counter %q", score, d.look().fence.fields[""])
				}
				d.goesAway("a", "t", time.Minute)
				if place := d.rdb.Get(d.Context(), d.name.kept("t")).Val(); !try && place != "" {
					if _, ok := wholeNumber(place); !ok {
						d.Errorf("a score of %s makes the kept place %q", score, place)
					}
				}
			}
		}
	})
}
