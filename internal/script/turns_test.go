package script_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// endings are the scripts by which a hold of a reader can end.
func endings(d *scripttest.Driver) map[string]func(id string) {
	return map[string]func(id string){
		"release":   func(id string) { d.Want("release", d.Release(id), script.Done) },
		"cancel":    func(id string) { d.Cancel(id) },
		"force":     func(id string) { d.Want("force", d.Force(d.Token(), "owner-"+id), script.Done) },
		"hand-over": func(id string) { d.Acquire(scripttest.Acquire{ID: id + "2", Mode: core.Read, Predecessor: id}) },
	}
}

// The first ticket of the queue may be a reader or a writer.
func TestHoweverReadersEndAWriterHasItsTurn(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		all := endings(d)
		all["cancel of another, when its time is over,"] = func(id string) { d.Expire(id); d.Cancel("another") }
		for name, end := range all {
			d.Read("a")
			d.Write("gone")
			d.Read("r")
			d.Write("w")
			d.Cancel("gone") // r is the first now
			d.WantReaders("a")
			end("a")
			if id := d.Look().HolderID(); id != "w" {
				d.Errorf("after a %s of the last reader: %v", name, d.Look())
			}
			d.Redis.FlushAll(d.Context())
		}
	})
}

// A reader that comes after a batch waits for the writers ahead of it, and no longer.
func TestTheEndOfABatchIsTheEndOfItsPrivilege(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Write("w")
		all := scripttest.IDs("r", script.MaxAdmitted+9)
		d.Queue(false, all...)
		d.Write("v")
		d.Want("release", d.Release("w"), script.More)
		d.Read("late")
		d.Settle()
		d.WantReaders(all...)
		d.Cancel("v")
		d.WantReaders(append(all, "late")...)
	})
}

// The time for which a hold lasts does not matter.
func TestQueuesLastAsLongAsSomebodyPolls(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write, Lease: time.Hour})
		d.Read("r")
		d.Write("w")
		for range 2 * script.QueueTTL / script.PollInterval {
			later(script.PollInterval)
			d.Poll("r", "w")
		}
		polled := d.Poll("r", "w")
		for i, got := range polled.Tickets {
			if got.Outcome != script.Queued || polled.Wait.Queued != 2 {
				d.Errorf("number %d of %d is %+v", i, polled.Wait.Queued, got)
			}
		}
		d.Release("held")
		d.WantReaders("r")
	})
}

func TestADowngradedHoldIsWantedByWhoWaitsToWrite(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Write("w")
		d.Write("v")
		d.Want("downgrade", d.Downgrade("w"), script.Done)
		d.WantRenewed("renewal", d.Renew("w", time.Minute), scripttest.Contended)
		d.Cancel("v")
		d.WantRenewed("renewal when nobody waits", d.Renew("w", time.Minute), scripttest.Renewed)
	})
}

// The message may have been lost.
func TestTheHolderOfATokenBlockIsNotifiedByEachPollThatOthersWait(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		scripttest.PassToken(d.T, d.Write("before").Grant.Token) // so that there may be several
		d.Release("before")
		heard := d.Hear()
		if got := d.Acquire(scripttest.Acquire{ID: "w", Tokens: 40}); got.Grant.Tokens < 2 {
			d.Fatalf("%+v", got)
		}
		for _, wait := range []func(){func() { d.Write("v") }, func() { d.Poll("v") }, func() { d.Poll("v") }} {
			wait()
			if got := heard(); len(got) != 1 || got[0] != "w: contended w" {
				d.Errorf("published: %q", got)
			}
		}
	})
}

// A subscription may have broken a moment ago, so a message that reached nobody says little about a process that was seen
// recently.
func TestWhoWasSeenWithinABeatIsNotPassedOver(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Write("w")
		d.Queue(true, "r")
		d.Write("v")
		later(script.BeatInterval)
		d.Release("w")
		d.WantReaders("r")
	})
}

// A try takes the lock if all tickets ahead are dead.
func TestATryDoesNotWaitForTheDead(t *testing.T) {
	for name, mode := range map[string]core.Mode{"to write": core.Write, "to read": core.Read} {
		t.Run(name, func(t *testing.T) {
			scripttest.OnEach(t, func(d *scripttest.Driver) {
				d.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write, Lease: time.Hour})
				d.Write("dead")
				d.Redis.Del(d.Context(), d.Keys.Holder()) // its lease expired
				d.Kill("dead")
				d.WantHeld("a try", d.Acquire(scripttest.Acquire{ID: "try", Mode: mode, Try: true}))
			})
		})
	}
}

func TestAPollThatDropsTheDeadAnswersWhereTheOthersStand(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Acquire(scripttest.Acquire{ID: "a", Mode: core.Read, Lease: time.Hour})
		d.Write("dead")
		d.Write("w")
		for _, want := range []int{2, 1} {
			polled := d.Poll("w")
			if polled.Tickets[0].Position != want || polled.Wait.Queued != want {
				d.Errorf("it is %+v of %d, want position %d", polled.Tickets[0], polled.Wait.Queued, want)
			}
			d.Kill("dead")
		}
	})
}

// The script that finds that the last reader's hold has expired ends the phase.
func TestAWriterHasItsTurnWhoeverFindsThatTheReadersAreOver(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		for name, find := range map[string]func(){
			"poll":    func() { d.Poll("w") },
			"acquire": func() { d.Write("v") },
		} {
			d.Read("a")
			d.Write("gone")
			d.Read("r")
			d.Write("w")
			d.Cancel("gone")
			d.WantReaders("a")
			d.Expire("a")
			find()
			if id := d.Look().HolderID(); id != "w" {
				d.Errorf("found by %s: %v", name, d.Look())
			}
			d.Redis.FlushAll(d.Context())
		}
	})
}
