package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

func TestPermitsAreGrantedUpToN(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		var tokens []int64
		for i, id := range []string{"a", "b", "c"} {
			got := d.AcquirePermit(scripttest.Permit{ID: id, N: 3})
			again := d.AcquirePermit(scripttest.Permit{ID: id, N: 3})
			if got.Outcome != script.Held || got.Grant.Slots != fmt.Sprint(i) || !sameGrant(again, got) {
				d.Errorf("%s: %+v, and then %+v", id, got, again)
			}
			tokens = append(tokens, got.Grant.Token)
		}
		if !slices.IsSorted(tokens) || tokens[0] == tokens[1] || tokens[1] == tokens[2] {
			d.Errorf("the tokens are %v", tokens)
		}
		d.Want("a try", d.AcquirePermit(scripttest.Permit{ID: "d", N: 3, Try: true}).Outcome, script.Queued)
		got := d.AcquirePermit(scripttest.Permit{ID: "e", N: 3})
		if got.Outcome != script.Queued || got.Wait.Position != 1 || len(got.Wait.Holders) != 3 || got.Next <= 0 {
			d.Errorf("the fourth: %+v", got)
		}
		d.CheckPermits(true)
		d.Want("release", d.ReleasePermit("b"), script.Done)
		d.Want("a repeated release", d.ReleasePermit("b"), script.NotHeld)
		p := d.PollPermits("e").Tickets[0]
		if p.Outcome != script.Held || p.Grant.Slots != "1" || p.Grant.Token <= tokens[2] {
			d.Errorf("the waiter: %+v", p)
		}
		d.CheckPermits(true)
		for _, id := range []string{"a", "c", "e"} {
			d.Want("release", d.ReleasePermit(id), script.Done)
		}
		d.WantNothingLeft()
	})
}

func sameGrant(a, b script.Acquired) bool { return a.Outcome == b.Outcome && a.Grant == b.Grant }

func TestAPermitEndsByItsOwnTime(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 2, Lease: time.Minute})
		d.AcquirePermit(scripttest.Permit{ID: "b", N: 2, Lease: time.Second})
		d.AcquirePermit(scripttest.Permit{ID: "c", N: 2})
		later(900 * time.Millisecond)
		d.Want("renewal", d.RenewPermit("b", time.Second), script.Done)
		later(900 * time.Millisecond)
		d.Want("poll", d.PollPermits("c").Tickets[0].Outcome, script.Queued)
		later(100 * time.Millisecond)
		d.Want("a late renewal", d.RenewPermit("b", time.Hour), script.NotHeld)
		d.Want("a late release", d.ReleasePermit("b"), script.NotHeld)
		d.Want("poll of who waits", d.PollPermits("c").Tickets[0].Outcome, script.Held)
		d.CheckPermits(true)
		d.Want("a later renewal", d.RenewPermit("b", time.Hour), script.NotHeld)
		if s := d.LookAtPermits(); !slices.Equal(s.Live(), []string{"a", "c"}) {
			d.Errorf("%q have permits", s.Live())
		}
	})
}

// The process of a hold that expired may still be working: other holds get its slot last.
func TestSlotsThatWereReleasedComeFirst(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 4, Lease: time.Second})
		d.AcquirePermit(scripttest.Permit{ID: "b", N: 4})
		d.AcquirePermit(scripttest.Permit{ID: "c", N: 4})
		d.ReleasePermit("c")
		later(time.Second)
		for i, want := range []string{"2", "3", "0"} {
			if got := d.AcquirePermit(scripttest.Permit{ID: fmt.Sprint("n", i), N: 4}); got.Grant.Slots != want {
				d.Errorf("the next has slot %q, want %s", got.Grant.Slots, want)
			}
		}
		d.CheckPermits(true)
	})
}

func TestSlotsNeedNotBeNextToEachOther(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		for i := range 6 {
			d.AcquirePermit(scripttest.Permit{ID: fmt.Sprint("a", i), N: 8})
		}
		for _, id := range []string{"a1", "a3", "a4"} {
			d.ReleasePermit(id)
		}
		if got := d.AcquirePermit(scripttest.Permit{ID: "w", N: 8, Weight: 5}); got.Grant.Slots != "1,3-4,6-7" {
			d.Errorf("the slots are %q", got.Grant.Slots)
		}
		d.CheckPermits(true)
	})
}

func TestALingeringPermitKeepsItsSlots(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 1, Lease: time.Hour}) // longer than it lingers
		d.Want("release", d.ReleasePermitAs(script.Release{ID: scripttest.ID("a"), Linger: time.Minute}), script.Done)
		d.CheckPermits(true)
		got := d.AcquirePermit(scripttest.Permit{ID: "b", N: 1})
		if got.Outcome != script.Queued || got.Next != time.Minute || len(got.Wait.Holders) != 1 || !got.Wait.Holders[0].Lingers {
			d.Errorf("behind a permit that lingers: %+v", got)
		}
		d.Want("renewal", d.RenewPermit("a", time.Hour), script.NotHeld)
		for range 59 {
			later(time.Second)
			d.Want("poll", d.PollPermits("b").Tickets[0].Outcome, script.Queued)
		}
		later(time.Second)
		d.Want("poll", d.PollPermits("b").Tickets[0].Outcome, script.Held)
	})
}

// Locks and permits on one key: a typed error, and nothing is written.
func TestLocksAndPermitsRefuseEachOther(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		refused := func(what string, op scripttest.Operation, words ...string) {
			d.Helper()
			before := contentOf(d)
			_, err := script.AcquireAnswer(d.Send(op), "")
			for _, word := range append(words, "WRONGTYPE") {
				if err == nil || !strings.Contains(err.Error(), word) {
					d.Errorf("%s: %v, which does not say %q", what, err, word)
				}
			}
			if after := contentOf(d); after != before {
				d.Errorf("%s changed\n%s to\n%s", what, before, after)
			}
		}
		locks := func(what string) {
			d.Helper()
			for _, a := range []scripttest.Acquire{{ID: "l"}, {ID: "l", Try: true}, {ID: "l", Mode: 1}, {ID: "l", Mode: 2}, {ID: "l", Mode: 3}} {
				refused(what, a.Operation(d), "permits of a semaphore", "a lock")
			}
		}
		permits := func(what string, words ...string) {
			d.Helper()
			refused(what, scripttest.Permit{ID: "p", N: 2}.Operation(d), words...)
			refused(what, scripttest.Permit{ID: "p", N: 2, Try: true}.Operation(d), words...)
		}
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 1})
		locks("a lock of a key with a permit")
		d.AcquirePermit(scripttest.Permit{ID: "b", N: 1})
		locks("a lock of a key whose permits are waited for")
		d.Want("a lock's release", d.Release("a"), script.NotHeld)
		d.Cancel("a")
		if s := d.LookAtPermits(); !slices.Equal(s.Live(), []string{"a"}) || !slices.Equal(s.Queue, []string{"b"}) {
			d.Errorf("the scripts for locks have left %q, and tickets %q", s.Live(), s.Queue)
		}
		d.CancelPermit("b")
		d.ReleasePermit("a")

		d.Lock("l")
		permits("a permit of a key with a lock", "lock of mode exclusive", "a semaphore")
		d.Want("a permit's release", d.ReleasePermit("l"), script.NotHeld)
		d.CancelPermit("l")
		d.WantHolder("l")
		d.Lock("m")
		d.Redis.Del(d.Context(), d.Keys.Holder())
		permits("a permit of a key whose lock is waited for", "locks of the key are waited for")
		d.Cancel("m")
		d.Read("r")
		permits("a permit of a key that is read", "lock of mode read")
		d.Release("r")
		d.Want("a permit of a free key", d.AcquirePermit(scripttest.Permit{ID: "q", N: 1}).Outcome, script.Held)
	})
}

// contentOf returns everything that the server stores for locks and permits of the key.
func contentOf(d *scripttest.Driver) string {
	locks, permits := d.Look(), d.LookAtPermits()
	return fmt.Sprint(locks.Holder.Fields, locks.Queue.Fields, locks.ReadQueue.Fields, locks.Tickets.Fields, locks.Fence.Fields,
		permits.Queue, permits.Tickets)
}

// The permit of a crashed process expires, and so do tickets of crashed processes: then any kind may use the key.
func TestAnyKindMayBeginWhenNobodyHoldsOrWaits(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 1, Lease: time.Second})
		d.AcquirePermit(scripttest.Permit{ID: "b", N: 1, Lease: time.Second})
		d.CancelPermit("b")
		later(time.Second)
		d.Want("a lock", d.Lock("l").Outcome, script.Held)
	})
}
