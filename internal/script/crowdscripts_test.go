package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A run admits a bounded number. The rest follows before any writer does.
func TestAllWhoWaitToReadAreAdmittedBeforeAWriter(t *testing.T) {
	for _, n := range []int{script.MaxAdmitted, script.MaxAdmitted + 1, 300} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			scripttest.OnEachCrowded(t, func(d *scripttest.Driver) {
				token := d.Write("w").Grant.Token
				all := scripttest.IDs("r", n)
				d.Queue(false, all[:n/2]...)
				d.Write("v")
				d.Queue(false, all[n/2:]...)
				want := script.Done
				if n > script.MaxAdmitted {
					want = script.More
				}
				d.Want("release", d.Release("w"), want)
				d.WantReaders(all[:min(n, script.MaxAdmitted)]...)
				// They come in between two batches.
				d.Write("u")
				late := d.Read("late")
				try := d.Acquire(scripttest.Acquire{ID: "try", Mode: core.Write, Try: true})
				if try.Outcome != script.Queued || late.Outcome != script.Queued {
					d.Errorf("a writer's try: %+v, a reader that comes later: %+v", try, late)
				}
				d.Settle()
				d.WantReaders(all...)
				polled := d.Poll(all[0], all[n-1], "late", "v").Tickets
				if polled[0].Grant.Token != token || polled[1].Grant.Token != token || polled[2].Outcome != script.Queued || polled[3].Outcome != script.Queued {
					d.Errorf("the first, the last, a later one and a writer got %+v", polled)
				}
				d.Tidy = false
				for _, id := range all {
					d.Release(id)
				}
				d.Tidy = true
				d.WantWriter("v")
				d.Release("v")
				d.WantReaders("late")
			})
		})
	}
}

// If the first ones leave before the rest is admitted, no writer comes in between all the same.
func TestTheRestOfABatchIsAdmittedWhenTheFirstHaveLeft(t *testing.T) {
	scripttest.OnEachCrowded(t, func(d *scripttest.Driver) {
		d.Write("w")
		all := scripttest.IDs("r", script.MaxAdmitted+10)
		d.Queue(false, all...)
		d.Write("v")
		d.Want("release", d.Release("w"), script.More)
		d.Tidy = false
		for _, id := range all[:script.MaxAdmitted] { // as if they had been fast
			d.Release(id)
		}
		d.Tidy = true
		d.Settle()
		d.WantReaders(all[script.MaxAdmitted:]...)
		d.Tidy = false
		for _, id := range all[script.MaxAdmitted:] {
			d.Release(id)
		}
		d.Tidy = true
		d.WantWriter("v")
	})
}

// A reader that finds the end of a batch on its way is not lost, nor the batch.
func TestAReaderThatComesBetweenTwoBatches(t *testing.T) {
	scripttest.OnEachCrowded(t, func(d *scripttest.Driver) {
		d.Write("w")
		all := scripttest.IDs("r", 2*script.MaxAdmitted+10)
		d.Queue(false, all...)
		d.Want("release", d.Release("w"), script.More)
		d.WantHeld("a reader, with nobody waiting to write", d.Read("late"))
		again := d.Acquire(scripttest.Acquire{ID: all[len(all)-1], Mode: core.Read}) // a late copy
		d.WantHeld("the last one's acquire, once more", again)
		if left := d.Ends(all[len(all)-1]).Sub(d.Look().Now); left < scripttest.Lease-2*time.Second {
			d.Errorf("it learns that it reads for %v, and does for %v", scripttest.Lease, left)
		}
		d.Settle()
		d.WantReaders(append(all, "late")...)
	})
}

func TestDeadReadersAreDropped(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Write("w")
		dead := scripttest.IDs("d", 2*script.MaxAdmitted)
		d.Queue(false, dead...)
		d.Read("alive")
		d.Write("v")
		for range 5 {
			later(script.PollInterval)
			d.Poll("alive", "v")
			d.Renew("w", time.Minute)
		}
		d.Release("w")
		d.Settle()
		d.WantReaders("alive")
		for _, id := range dead {
			if d.Look().Waits(id) {
				d.Fatalf("%s is still queued", id)
			}
		}
		d.Release("alive")
		d.WantWriter("v")
		d.Release("v")
		d.WantNothingLeft()
	})
}

// With nobody alive on the one side, the other has its turn.
func TestDeadTicketsOfOneSideDoNotKeepTheOtherOut(t *testing.T) {
	for name, dead := range map[string]struct {
		mode core.Mode
		n    int
	}{
		"readers":      {core.Read, 3},
		"many readers": {core.Read, script.MaxAdmitted + 9},
		"writers":      {core.Write, 3},
		"many writers": {core.Write, script.MaxReaped + 9},
	} {
		for _, free := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, held for reading: %t", name, !free), func(t *testing.T) {
				scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
					other, end := core.Read, "r"
					if dead.mode == core.Read {
						other = core.Write
					}
					d.Acquire(scripttest.Acquire{ID: "r", Mode: core.Read, Lease: time.Hour})
					if free {
						d.Write("w")
						d.Release("r")
						end = "w"
					} else if other == core.Read {
						end = ""
					}
					if dead.mode == core.Read && !free {
						d.Write("first") // or they would not wait
					}
					d.Tidy = false
					for _, id := range scripttest.IDs("d", dead.n) {
						d.Acquire(scripttest.Acquire{ID: id, Mode: dead.mode})
					}
					d.Acquire(scripttest.Acquire{ID: "alive", Mode: other})
					d.Tidy = true
					for range 5 {
						later(script.PollInterval)
						d.PollOne("alive")
						d.Renew("w", time.Hour)
					}
					if end != "" {
						d.Release(end)
					}
					d.Settle()
					if !d.Look().Has("alive") {
						d.Errorf("it waits still: %v", d.Look())
					}
				})
			})
		}
	}
}

// After readers a writer has its turn, even if many writers before it are dead.
func TestDeadWritersDoNotCostALiveOneItsTurn(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Acquire(scripttest.Acquire{ID: "r", Mode: core.Read, Lease: time.Hour})
		d.Tidy = false
		for _, id := range scripttest.IDs("d", script.MaxReaped+8) {
			d.Write(id)
		}
		d.Tidy = true
		later(script.PollInterval)
		d.Read("s")
		d.Write("alive")
		for range 3 { // in the last of these the others are not dead yet
			later(script.PollInterval - 10*time.Millisecond)
			d.Poll("s", "alive")
		}
		later(50 * time.Millisecond)
		d.Release("r")
		d.Settle()
		d.WantWriter("alive")
	})
}

// Whose process is certainly gone is passed over, and stays in the queue.
func TestMuteReadersArePassedOver(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Listen("heard")
		d.Write("w")
		d.Queue(true, "mute1", "heard", "mute2")
		d.Acquire(scripttest.Acquire{ID: "unsubscribed", Mode: core.Read})
		later(script.PollInterval + 50*time.Millisecond)
		d.Release("w")
		d.WantReaders("heard", "unsubscribed")
		d.Want("poll of one that was passed over", d.PollOne("mute1"), script.Held)
		d.WantReaders("heard", "unsubscribed", "mute1")
	})
}

func TestMuteReadersDoNotKeepAWriterOut(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Write("w")
		d.Queue(true, "mute1", "mute2")
		d.Write("v")
		later(script.PollInterval + 50*time.Millisecond)
		d.PollOne("v")
		d.Release("w")
		d.WantWriter("v")
		d.Release("v") // nobody else is left: they are admitted whether they listen or not
		d.WantReaders("mute1", "mute2")
	})
}

// If nobody seems to listen, the subscriptions may be what is broken.
func TestIfAllAreMuteTheFirstHaveTheirTurn(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Write("w")
		d.Queue(true, "r", "s")
		d.Acquire(scripttest.Acquire{ID: "v", Mode: core.Write, Subscribed: true})
		later(script.PollInterval + 50*time.Millisecond)
		d.Release("w")
		if sc := d.Look(); sc.HolderID() != "v" && len(sc.Readers()) != 2 {
			d.Errorf("nobody has the lock: %v", sc)
		}
		d.Cancel("v")
		d.WantReaders("r", "s")
	})
}

// Some that do not listen are no reason to make others wait for another phase.
func TestMuteReadersDoNotStopABatch(t *testing.T) {
	for name, mute := range map[string]int{"one": 1, "half a batch": script.MaxAdmitted / 2} {
		t.Run(name, func(t *testing.T) {
			scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
				d.Write("w")
				d.Queue(true, scripttest.IDs("mute", mute)...)
				all := scripttest.IDs("r", 300)
				d.Queue(false, all...)
				d.Write("v")
				later(script.PollInterval + 50*time.Millisecond)
				d.PollOne("v")
				d.Release("w")
				d.Settle()
				d.WantReaders(all...)
			})
		})
	}
}

// The one that waits to write does not listen, and those that wait to read are dead.
func TestAWriterThatDoesNotListenIsTheLastOfTheQueue(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.WantHeld("r0", d.Read("r0"))
		d.WantQueued("w", d.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write, Subscribed: true}), 1, 1)
		d.WantQueued("r1", d.Read("r1"), 1, 2)
		for range 3 {
			later(script.PollInterval)
			d.PollSubscribed("w")
		}
		later(script.PollInterval + 10*time.Millisecond)
		d.Release("r0")
		sc := d.Look()
		if sc.HolderID() != "w" || sc.Holder.Fields["wanted"] == "1" {
			d.Errorf("w is to hold the lock and nobody to want it: %v", sc)
		}
	})
}

// A release may overtake the downgrade before it.
func TestABatchLeavesToOthersWhatWasDowngraded(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.WantHeld("w", d.Write("w"))
		d.Want("downgrade", d.Downgrade("w"), script.Done)
		answer, err := d.Eval("release_batch", []string{d.Keys.Holder(), d.Keys.Queue()}, "w")
		if err != nil || fmt.Sprint(answer) != "[-1]" {
			d.Errorf("the batch answers %v, %v", answer, err)
		}
		d.Release("w")
		if sc := d.Look(); sc.Holder.Exists() {
			d.Errorf("the lock is not free: %v", sc)
		}
	})
}
