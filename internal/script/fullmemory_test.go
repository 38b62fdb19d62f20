package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// onFullMemory prepares a lock, and then runs f on a server whose memory is full.
func onFullMemory(t *testing.T, name string, prepare, test func(d *scripttest.Driver)) {
	t.Run(name, func(t *testing.T) {
		d := scripttest.New(t, redistest.Lent(t).NewClient(t), t.Name())
		d.BeTidy()
		prepare(d)
		if err := d.Redis.ConfigSet(d.Context(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		test(d)
	})
}

// A full server refuses writes that need memory. Holders must be able to keep and to release the lock, and waiters must get it
// after them.
func TestWithFullMemoryOnlyNewReadersAreRefused(t *testing.T) {
	const name = "lockmw:inbox" // any text
	refused := func(d *scripttest.Driver, what string, a scripttest.Acquire) {
		d.Helper()
		a.ID = "new"
		before := d.Look()
		if got, err := d.AcquireOnce(a); err == nil || !strings.Contains(err.Error(), "OOM") {
			d.Errorf("%s: %+v, %v, want OOM", what, got, err)
		}
		after := d.Look()
		for part, p := range after.Parts() {
			if !p.Same(before.Parts()[part]) {
				d.Errorf("%s, which was refused, changed the %s: %v", what, part, p)
			}
		}
	}
	everybodyIsRefused := func(d *scripttest.Driver) {
		d.Helper()
		refused(d, "a reader", scripttest.Acquire{Mode: core.Read, Trace: name})
		refused(d, "a writer", scripttest.Acquire{Mode: core.Write})
		refused(d, "one whose place is kept", scripttest.Acquire{Mode: core.Fair, Place: "t", KeepPlace: time.Minute})
		refused(d, "a try whose place is kept", scripttest.Acquire{Mode: core.Fair, Try: true, Place: "t", KeepPlace: time.Minute})
	}

	onFullMemory(t, "free", func(d *scripttest.Driver) { d.Read("a"); d.Release("a") }, everybodyIsRefused)
	onFullMemory(t, "read", func(d *scripttest.Driver) { d.Read("a") }, func(d *scripttest.Driver) {
		everybodyIsRefused(d)
		refused(d, "a try to read beside others", scripttest.Acquire{Mode: core.Read, Try: true})
		d.Want("release", d.ReleaseMarked("a"), script.Done)
		d.WantReaders()
	})
	onFullMemory(t, "read, and waited for", func(d *scripttest.Driver) {
		d.Read("a")
		d.Read("b")
		d.Write("w")
		d.Read("r")
		d.Read("s")
	}, func(d *scripttest.Driver) {
		everybodyIsRefused(d)
		ends := d.Ends("a")
		d.WantRenewed("renewal", d.Renew("a", time.Hour), scripttest.Contended)
		if got := d.Ends("a"); got.Sub(ends) < time.Hour-2*scripttest.Lease {
			d.Errorf("renewed for an hour, it ends at %v instead of %v", got, ends)
		}
		all := d.Poll("a", "w", "r", "gone").Tickets
		if all[0].Outcome != script.Held || all[1].Outcome != script.Queued || all[2].Outcome != script.Queued || all[3].Outcome != script.Over {
			d.Errorf("poll: %+v", all)
		}
		d.Want("release of one", d.Release("b"), script.Done)
		d.Cancel("w")
		d.WantReaders("a", "r", "s")
		d.Want("poll of one that was admitted", d.PollOne("r"), script.Held)
		d.Want("downgrade, repeated", d.Downgrade("r"), script.Done)
		d.Cancel("r")
		d.Want("force", d.Force(d.Token(), "owner-s"), script.Done)
		d.WantReaders("a")
	})
	onFullMemory(t, "written, and waited for", func(d *scripttest.Driver) {
		d.Write("w")
		d.Read("r")
		d.Read("s")
		d.Write("v")
		d.Keep("f", "t", time.Minute)
	}, func(d *scripttest.Driver) {
		d.Want("release", d.Release("w"), script.Done)
		d.WantReaders("r", "s")
		d.Want("poll", d.PollOne("r"), script.Held)
		d.Release("r")
		d.Want("release of the last one", d.ReleaseMarked("s"), script.Done)
		d.WantWriter("v")
		d.Want("cancel of one whose place is kept", d.CancelKeeping("f", "t", time.Minute), script.Done)
		if d.Redis.Exists(d.Context(), d.Keys.Kept("t")).Val() == 0 {
			d.Error("the place is not kept")
		}
		d.Want("release", d.Release("v"), script.Done)
		d.WantNothingLeft()
	})
	onFullMemory(t, "read, waited for, and not looked after for long", func(d *scripttest.Driver) {
		d.Read("a")
		d.Write("w")
		d.Beat("w", true)
		d.Redis.HSet(d.Context(), d.Keys.Alive(), "#last", 1)
	}, func(d *scripttest.Driver) {
		everybodyIsRefused(d)
		for _, mode := range []core.Mode{core.Exclusive, core.Read, core.Write} {
			d.Want("a try", d.Acquire(scripttest.Acquire{ID: "new", Mode: mode, Try: true}).Outcome, script.Queued)
		}
		d.Want("poll", d.PollOne("w"), script.Queued)
		d.Want("release", d.Release("a"), script.Done)
		d.WantWriter("w")
	})
	onFullMemory(t, "held, with calls behind it", func(d *scripttest.Driver) {
		d.Lock("a")
		d.Lock("b")
	}, func(d *scripttest.Driver) {
		d.Want("telling", d.Tell("a", 10, 1), script.Done)
		d.Want("poll", d.PollCalls("b", 5), script.Queued)
		if got := d.Look(); got.Holder.Fields["waiters"] != "10 1" || !strings.Contains(got.Tickets.Fields["b"], "*5 ") {
			d.Errorf("it was not told: %v", got)
		}
		d.Want("release", d.Release("a"), script.Done)
		if got := d.Look(); got.HolderID() != "b" || got.Holder.Fields["waiters"] != "4" {
			d.Errorf("after the grant: %v", got)
		}
	})
	onFullMemory(t, "passed on to others", func(d *scripttest.Driver) {
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			d.FairOf("p", id)
		}
		d.Release("a")
	}, func(d *scripttest.Driver) {
		d.Want("cancel of who was served", d.CancelRun("c"), script.Done)
		d.Want("release", d.ReleaseRun("b", "c", "d"), script.Done)
		if got := d.Look(); got.HolderID() != "e" {
			d.Errorf("after the release: %v", got)
		}
		d.Want("cancel", d.CancelRun("e"), script.Done)
		d.WantNothingLeft()
	})
	onFullMemory(t, "to be downgraded", func(d *scripttest.Driver) {
		d.Write("w")
		d.Write("v")
		d.Read("r")
	}, func(d *scripttest.Driver) {
		d.Want("downgrade", d.Downgrade("w"), script.Done)
		d.WantReaders("w", "r")
		d.Want("repeated", d.Downgrade("w"), script.Done)
		d.WantRenewed("renewal", d.Renew("w", time.Minute), scripttest.Contended)
	})
	onFullMemory(t, "read by one that has expired", func(d *scripttest.Driver) {
		d.Read("a")
		d.Read("b")
		d.Write("w")
		d.Read("r")
		d.Expire("a")
	}, func(d *scripttest.Driver) {
		d.Want("poll of a writer", d.PollOne("w"), script.Queued)
		d.WantReaders("b")
		d.Want("release of the other", d.Release("b"), script.Done)
		d.WantWriter("w")
	})
}

// That a reader's time was to be over, had it not been renewed, is noted on the way.
func TestWithFullMemoryReadersAreLookedThrough(t *testing.T) {
	for what, run := range map[string]func(d *scripttest.Driver){
		"poll":      func(d *scripttest.Driver) { d.Want("poll", d.PollOne("a"), script.Held) },
		"downgrade": func(d *scripttest.Driver) { d.Want("downgrade", d.Downgrade("a"), script.Done) },
		"force":     func(d *scripttest.Driver) { d.Want("force", d.Force(d.Token(), "owner-b"), script.Done) },
		"release":   func(d *scripttest.Driver) { d.Want("release", d.Release("b"), script.Done) },
		"renewal":   func(d *scripttest.Driver) { d.WantRenewed("renewal", d.Renew("a", time.Minute), scripttest.Contended) },
		"cancel":    func(d *scripttest.Driver) { d.Want("cancel", d.Cancel("b"), script.Done) },
		"disown":    func(d *scripttest.Driver) { d.Want("disown", d.Disown("", 11, 10), script.Done) }, // b, not a
	} {
		onFullMemory(t, what, func(d *scripttest.Driver) {
			d.Read("a")
			d.Read("b")
			d.Write("w")
			d.Redis.HSet(d.Context(), d.Keys.Holder(), "next", d.Look().Now.Add(-time.Second).UnixMilli())
		}, func(d *scripttest.Driver) {
			run(d)
			if _, reads := d.Look().Readers()["a"]; !reads {
				d.Errorf("a reads no longer: %v", d.Look())
			}
		})
	}
}
