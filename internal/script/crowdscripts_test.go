package script_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// One execution admits a bounded number of readers. The next ones admit the rest, before any writer.
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

// After readers, a writer has its turn even if many dead writers are ahead of it.
func TestDeadWritersDoNotCostALiveOneItsTurn(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Acquire(scripttest.Acquire{ID: "r", Mode: core.Read, Lease: time.Hour})
		d.Tidy = false
		for _, id := range scripttest.IDs("d", script.MaxReaped+8) {
			d.Write(id)
		}
		d.Tidy = true
		later(script.BeatInterval)
		d.Read("s")
		d.Write("alive")
		d.Kill(scripttest.IDs("d", script.MaxReaped+8)...)
		d.Poll("s", "alive")
		d.Release("r")
		d.Settle()
		d.WantWriter("alive")
	})
}

// A ticket whose process is certainly gone is passed over, and stays in the queue.
func TestMuteReadersArePassedOver(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Listen("heard")
		d.Write("w")
		d.Queue(true, "mute1", "heard", "mute2")
		d.Acquire(scripttest.Acquire{ID: "unsubscribed", Mode: core.Read})
		later(2 * script.BeatInterval)
		d.Release("w")
		d.WantReaders("heard", "unsubscribed")
		d.Beat("mute1", true)
		d.Want("poll of one that was passed over", d.PollOne("mute1"), script.Held)
		d.WantReaders("heard", "unsubscribed", "mute1")
	})
}

// If no process seems to listen, the subscriptions may be broken.
func TestIfAllAreMuteTheFirstHaveTheirTurn(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Write("w")
		d.Queue(true, "r", "s")
		d.Acquire(scripttest.Acquire{ID: "v", Mode: core.Write, Subscribed: true})
		later(2 * script.BeatInterval)
		d.Release("w")
		if sc := d.Look(); sc.HolderID() != "v" && len(sc.Readers()) != 2 {
			d.Errorf("no id holds the lock: %v", sc)
		}
		d.Cancel("v")
		d.WantReaders("r", "s")
	})
}

// Readers that do not listen do not make other readers wait for another phase.
func TestMuteReadersDoNotStopABatch(t *testing.T) {
	for name, mute := range map[string]int{"one": 1, "half a batch": script.MaxAdmitted / 2} {
		t.Run(name, func(t *testing.T) {
			scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
				d.Write("w")
				d.Queue(true, scripttest.IDs("mute", mute)...)
				all := scripttest.IDs("r", 300)
				d.Queue(false, all...)
				d.Write("v")
				later(2 * script.BeatInterval)
				d.PollOne("v")
				d.Release("w")
				d.Settle()
				d.WantReaders(all...)
			})
		})
	}
}

// The waiting writer does not listen, and the waiting readers are dead.
func TestAWriterThatDoesNotListenIsTheLastOfTheQueue(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.WantHeld("r0", d.Read("r0"))
		d.WantQueued("w", d.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write, Subscribed: true}), 1, 1)
		d.WantQueued("r1", d.Read("r1"), 1, 2)
		later(2 * script.BeatInterval)
		d.Kill("r1")
		d.Release("r0")
		sc := d.Look()
		if sc.HolderID() != "w" || sc.Holder.Fields["wanted"] == "1" {
			d.Errorf("want w to hold the lock, and no ticket: %v", sc)
		}
	})
}

// A reader that listens has the turn of a writer that does not, and only one of them has it.
func TestAReaderHasTheTurnOfAWriterThatDoesNotListen(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.WantHeld("r0", d.Read("r0"))
		d.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write, Subscribed: true})
		d.Listen("r1")
		d.WantQueued("r1", d.Read("r1"), 1, 2)
		later(2 * script.BeatInterval)
		d.Release("r0")
		d.WantReaders("r1")
		if sc := d.Look(); !sc.Waits("w") {
			d.Errorf("the writer does not wait any more: %v", sc)
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
