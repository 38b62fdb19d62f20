package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// endings are the ways in which a hold ends by a script.
func endings(d *desk, mode core.Mode) map[string]func(id string) {
	return map[string]func(id string){
		"release":   func(id string) { d.wantKind("release", d.release(id, 0), 1) },
		"cancel":    func(id string) { d.cancel(id) },
		"force":     func(id string) { d.wantKind("force", d.force(d.tokenOf(), "owner-"+id), 1) },
		"hand-over": func(id string) { d.asks(ask{id: id + "2", mode: mode, former: id}) },
	}
}

// Whoever is the first in the queue.
func TestHoweverReadersEndAWriterHasItsTurn(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		all := endings(d, core.Read)
		all["cancel of another, when its time is over,"] = func(id string) { d.expire(id); d.cancel("another") }
		for name, end := range all {
			d.read("a")
			d.write("gone")
			d.read("r")
			d.write("w")
			d.cancel("gone") // r is the first now
			d.wantReaders("a")
			end("a")
			if id := d.look().holds(); id != "w" {
				d.Errorf("after a %s of the last reader: %v", name, d.look())
			}
			d.rdb.FlushAll(d.Context())
		}
	})
}

func TestHoweverAWriterEndsReadersHaveTheirTurn(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		for name, end := range endings(d, core.Write) {
			d.write("a")
			d.write("w") // the first
			d.read("r")
			end("a")
			if sc := d.look(); sc.holds() != "" || len(sc.readers()) != 1 {
				d.Errorf("after a %s of the writer: %v", name, sc)
			}
			d.rdb.FlushAll(d.Context())
		}
	})
}

// As readers that are let in by others than a release are.
func TestWhoReadsIsToldByThePollThatAWriterWaits(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("held")
		d.write("w")
		d.read("r")
		d.release("held", 0)
		all, _ := d.polls("r")
		if all[0].kind != 1 || all[0].others != 1 {
			d.Errorf("a reader that was let in is told %+v", all[0])
		}
		d.wantKind("renewal", d.renew("r", time.Minute), 2)
	})
}

func TestReadersShareAgainWhenTheOnlyWriterHasGone(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.read("a")
		d.write("w")
		d.wantKind("renewal while a writer waits", d.renew("a", time.Minute), 2)
		d.cancel("w")
		d.wantKind("renewal when none waits", d.renew("a", time.Minute), 1)
	})
}

// Who comes after a batch waits for the writers that stand before him, and no longer.
func TestTheEndOfABatchIsTheEndOfItsPrivilege(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("w")
		all := ids("r", manyReaders+9)
		d.queues(false, all...)
		d.write("v")
		d.wantKind("release", d.release("w", 0), 2)
		d.read("late")
		d.settles()
		d.wantReaders(all...)
		d.cancel("v")
		d.wantReaders(append(all, "late")...)
	})
}

// However long somebody has the lock.
func TestQueuesLastAsLongAsSomebodyPolls(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.asks(ask{id: "held", mode: core.Write, lease: time.Hour})
		d.read("r")
		d.write("w")
		for range 2 * queueTTL / pollInterval {
			later(pollInterval)
			d.polls("r", "w")
		}
		all, _ := d.polls("r", "w")
		for i, got := range all {
			if got.kind != 0 || got.total != 2 {
				d.Errorf("number %d is told %+v", i, got)
			}
		}
		d.release("held", 0)
		d.wantReaders("r")
	})
}

func TestADowngradedHoldIsWantedByWhoWaitsToWrite(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("w")
		d.write("v")
		d.wantKind("downgrade", d.downgrade("w"), 1)
		d.wantKind("renewal", d.renew("w", time.Minute), 2)
		d.cancel("v")
		d.wantKind("renewal when nobody waits", d.renew("w", time.Minute), 1)
	})
}

// The message may have been lost.
func TestWhoHasABlockOfTokensIsToldByEachPollThatOthersWait(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		passToken(d.T, d.write("before").token) // so that there may be several
		d.release("before", 0)
		heard := d.hear()
		if got := d.asks(ask{id: "w", tokens: 40}); got.tokens < 2 {
			d.Fatalf("%+v", got)
		}
		for _, wait := range []func(){func() { d.write("v") }, func() { d.polls("v") }, func() { d.polls("v") }} {
			wait()
			if got := heard(); len(got) != 1 || got[0] != "w: contended w" {
				d.Errorf("published: %q", got)
			}
		}
	})
}

// A subscription may have broken just now: a message that nobody heard says little of one that was seen.
func TestWhoWasSeenWithinAPollIsNotPassedOver(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.write("w")
		d.queues(true, "r")
		d.write("v")
		later(pollInterval - 50*time.Millisecond)
		d.release("w", 0)
		d.wantReaders("r")
	})
}

// A try that finds nobody but dead ones in the way has the lock.
func TestATryDoesNotWaitForTheDead(t *testing.T) {
	for name, mode := range map[string]core.Mode{"to write": core.Write, "to read": core.Read} {
		t.Run(name, func(t *testing.T) {
			onClock(t, func(d *desk, later func(time.Duration)) {
				d.asks(ask{id: "held", mode: core.Write, lease: time.Hour})
				d.write("dead")
				for range 4 {
					later(pollInterval)
					d.polls()
				}
				d.rdb.Del(d.Context(), d.name.holder) // its lease ran out
				d.wantHeld("a try", d.asks(ask{id: "try", mode: mode, try: true}))
			})
		})
	}
}

func TestAPollThatDropsTheDeadTellsWhereTheOthersStand(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.asks(ask{id: "a", mode: core.Read, lease: time.Hour})
		d.write("dead")
		d.write("w")
		dropped := false
		for range 5 {
			later(pollInterval)
			all, _ := d.polls("w")
			dropped = !d.look().waits("dead")
			if want := map[bool]int64{false: 2, true: 1}[dropped]; all[0].position != want || all[0].total != want {
				d.Errorf("it is told %+v, want position %d", all[0], want)
			}
		}
		if !dropped {
			d.Error("the dead one waits still")
		}
	})
}

// A phase whose last reader has run out ends with the script that finds out.
func TestAWriterHasItsTurnWhoeverFindsThatTheReadersAreOver(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		for name, find := range map[string]func(){
			"poll":    func() { d.polls("w") },
			"acquire": func() { d.write("v") },
		} {
			d.read("a")
			d.write("gone")
			d.read("r")
			d.write("w")
			d.cancel("gone")
			d.wantReaders("a")
			d.expire("a")
			find()
			if id := d.look().holds(); id != "w" {
				d.Errorf("found by %s: %v", name, d.look())
			}
			d.rdb.FlushAll(d.Context())
		}
	})
}
