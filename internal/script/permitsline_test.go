package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

func wantPermits(d *scripttest.Driver, what string, want ...string) {
	d.Helper()
	if live := d.LookAtPermits().Live(); !slices.Equal(live, want) {
		d.Errorf("%s: %q have permits, want %q", what, live, want)
	}
}

// Every script that grants permits also grants those that have expired.
func TestAnyScriptGrantsPermitsWhoseTimeIsOver(t *testing.T) {
	for name, run := range map[string]func(d *scripttest.Driver){
		"release": func(d *scripttest.Driver) { d.ReleasePermit("b") },
		"cancel":  func(d *scripttest.Driver) { d.CancelPermit("b") },
	} {
		t.Run(name, func(t *testing.T) {
			scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
				d.AcquirePermit(scripttest.Permit{ID: "a", N: 2, Lease: time.Second})
				d.AcquirePermit(scripttest.Permit{ID: "b", N: 2})
				d.AcquirePermit(scripttest.Permit{ID: "v", N: 2})
				d.AcquirePermit(scripttest.Permit{ID: "w", N: 2})
				later(time.Second)
				run(d)
				wantPermits(d, name, "v", "w")
				d.CheckPermits(true)
			})
		})
	}
}

// A call that is sent anew ends the permit of its last id.
func TestAPermitComesInThePlaceOfItsPredecessor(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, _ func(time.Duration)) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 1})
		d.Want("in the place of a hold", d.AcquirePermit(scripttest.Permit{ID: "b", N: 1, Predecessor: "a"}).Outcome, script.Held)
		wantPermits(d, "in the place of a hold", "b")
		place := d.AcquirePermit(scripttest.Permit{ID: "v", N: 1}).Place
		d.AcquirePermit(scripttest.Permit{ID: "w", N: 1})
		got := d.AcquirePermit(scripttest.Permit{ID: "v2", N: 1, Predecessor: "v", PredecessorPlace: place})
		if got.Outcome != script.Queued || got.Place != place {
			d.Errorf("in the place of a ticket: %+v", got)
		}
		if s := d.LookAtPermits(); !slices.Equal(s.Queue, []string{"v2", "w"}) {
			d.Errorf("%q wait", s.Queue)
		}
		d.Want("a late copy of what got lost", d.AcquirePermit(scripttest.Permit{ID: "v", N: 1}).Outcome, script.Over)
		d.CheckPermits(true)
	})
}

// During a roll-out, slots above n may be free. They are not used, even if slots below n are taken by others.
func TestNoPermitHasASlotAboveN(t *testing.T) {
	for _, test := range []struct {
		n, weight int
		want      string
	}{{2, 1, "0"}, {3, 2, "2,0"}} {
		scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
			d.AcquirePermit(scripttest.Permit{ID: "a", N: 5, Weight: 2, Lease: time.Second})
			d.AcquirePermit(scripttest.Permit{ID: "b", N: 5, Weight: 2})
			d.AcquirePermit(scripttest.Permit{ID: "c", N: 5})
			d.ReleasePermit("b")
			later(time.Second)
			if got := d.AcquirePermit(scripttest.Permit{ID: "e", N: test.n, Weight: test.weight}); got.Grant.Slots != test.want {
				d.Errorf("one of weight %d has the slots %q of %d, want %q", test.weight, got.Grant.Slots, test.n, test.want)
			}
			d.CheckPermits(true)
		})
	}
}

// A message, and the description of a holder, have no room for many slots. A poll reports them.
func TestLongListsOfSlotsComeWithAPollOnly(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, _ func(time.Duration)) {
		const n = 140
		d.Untidy(func() {
			for i := range n {
				d.AcquirePermit(scripttest.Permit{ID: fmt.Sprint("a", i), N: n})
			}
		})
		d.AcquirePermit(scripttest.Permit{ID: "h", N: n, Weight: n / 2})
		heard := d.HearWhole()
		for i := 0; i < n; i += 2 {
			d.ReleasePermit(fmt.Sprint("a", i))
		}
		got := heard()
		if len(got) != 1 {
			d.Fatalf("published: %q", got)
		}
		if m, ok := script.ParseMessage(strings.TrimPrefix(got[0], "h: ")); !ok || m.Kind != script.Granted || m.ID != "h" || m.Grant.Slots != "" || !m.IsProven(scripttest.Secret("h")) {
			d.Errorf("published: %q", got)
		}
		g := d.PollPermits("h").Tickets[0].Grant
		if strings.Count(g.Slots, ",") != n/2-1 {
			d.Errorf("the poll says %q", g.Slots)
		}
		busy := d.AcquirePermit(scripttest.Permit{ID: "t", N: n, Try: true}).Wait
		if len(busy.Holders) != 8 {
			d.Errorf("%d holders are shown of %d", len(busy.Holders), n/2+1)
		}
		for i := 1; i < n; i += 2 {
			d.ReleasePermit(fmt.Sprint("a", i))
		}
		busy = d.AcquirePermit(scripttest.Permit{ID: "t", N: n, Weight: n, Try: true}).Wait
		if len(busy.Holders) != 1 || busy.Holders[0].Weight != n/2 || busy.Holders[0].Slots != "" {
			d.Errorf("in the way: %+v", busy.Holders)
		}
	})
}

// A ticket whose process certainly does not listen is passed over until no other ticket wants a permit. A ticket of a greater
// weight is not passed over, because it waits longer for its turn.
func TestMutePermitsArePassedOver(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Listen("heard")
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 1})
		for _, id := range []string{"mute1", "mute2", "heard"} {
			d.AcquirePermit(scripttest.Permit{ID: id, N: 1, Subscribed: true})
		}
		later(2 * script.BeatInterval)
		d.ReleasePermit("a")
		wantPermits(d, "after a release", "heard")
		d.ReleasePermit("heard")
		wantPermits(d, "nobody listens", "mute1")
		d.CheckPermits(true)
	})
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Listen("heard")
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 2, Weight: 2})
		d.AcquirePermit(scripttest.Permit{ID: "heavy", N: 2, Weight: 2, Subscribed: true})
		d.AcquirePermit(scripttest.Permit{ID: "heard", N: 2, Subscribed: true})
		later(2 * script.BeatInterval)
		d.ReleasePermit("a")
		wantPermits(d, "a heavy one", "heavy")
	})
}

// One execution removes a bounded number of dead tickets, and reports that there are more.
func TestDeadTicketsForPermitsAreRemoved(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 1, Lease: time.Hour})
		dead := scripttest.IDs("dead", 40)
		for _, id := range dead {
			d.AcquirePermit(scripttest.Permit{ID: id, N: 1})
		}
		d.AcquirePermit(scripttest.Permit{ID: "w", N: 1})
		d.Kill(dead...)
		d.Want("release", d.ReleasePermit("a"), script.More)
		wantPermits(d, "after a run")
		d.OthersBeat()
		d.Want("poll", d.PollPermits("w").Tickets[0].Outcome, script.Held)
		wantPermits(d, "after the dead", "w")
		if s := d.LookAtPermits(); len(s.Queue) > 0 || len(s.Tickets) > 0 {
			d.Errorf("the queue is %q, the tickets %q", s.Queue, s.Tickets)
		}
	})
}

// One execution removes a bounded number of expired permits. The next ones remove the rest, and no process is notified.
func TestAllPermitsWhoseTimeIsOverAreRemoved(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		const n = 300
		d.AcquirePermit(scripttest.Permit{ID: "a", N: n, Lease: time.Hour})
		d.Untidy(func() {
			for i := range n - 1 {
				d.AcquirePermit(scripttest.Permit{ID: fmt.Sprint("b", i), N: n, Lease: time.Second})
			}
		})
		later(time.Second)
		for run := range 3 {
			if p := d.PollPermits("z"); p.More != (run < 2) || len(p.Wait.Holders) > 1 {
				d.Errorf("poll %d: there is more: %t, in the way: %+v", run, p.More, p.Wait.Holders)
			}
		}
		if s := d.LookAtPermits(); len(s.All) != 1 {
			d.Errorf("%d permits are left", len(s.All))
		}
		d.CheckPermits(true)
	})
}

// Another client may have written a ticket that no call could want: it is removed.
func TestOddTicketsForPermitsAreRemoved(t *testing.T) {
	for _, odd := range []string{
		"permit 30000 0 x y 1 1 ", "permit 30000 -1 x y 1 1 ", "permit 30000 2 x y 1 1 ", "permit 30000 1 x y 1 1001 ", "permit 30000 1 x y 1",
		"permit 30000 z x y 1 1 ", "permit 30000 1 x y 1 z ", "",
	} {
		scripttest.OnClock(t, func(d *scripttest.Driver, _ func(time.Duration)) {
			d.AcquirePermit(scripttest.Permit{ID: "a", N: 1})
			d.AcquirePermit(scripttest.Permit{ID: "odd", N: 1})
			d.AcquirePermit(scripttest.Permit{ID: "w", N: 1})
			d.Redis.HSet(d.Context(), d.Keys.PermitTickets(), "odd", odd)
			d.ReleasePermit("a")
			wantPermits(d, odd, "w")
			d.CheckPermits(true)
		})
	}
}

// A permit ends even if another client has overwritten the counter. No other permit is granted then.
func TestAPermitEndsAlthoughItsCounterIsMalformed(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 1})
		d.AcquirePermit(scripttest.Permit{ID: "w", N: 1})
		d.Redis.Set(d.Context(), d.Keys.Fence(), "x", 0)
		d.Want("release", d.ReleasePermit("a"), script.Done)
		wantPermits(d, "the counter is none")
		before := contentOf(d)
		if _, err := d.AcquirePermitOnce(scripttest.Permit{ID: "b", N: 2}); err == nil || strings.Contains(err.Error(), "user_script") {
			d.Errorf("acquire: %v", err)
		}
		if after := contentOf(d); after != before {
			d.Errorf("one that was refused changed\n%s to\n%s", before, after)
		}
	})
}

// Values of other clients at a key are not taken for a permit.
func TestStrangersValuesAreNoPermits(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 1})
		d.Redis.HSet(d.Context(), d.Keys.Holder(), "mode", "x")
		d.Want("renewal", d.RenewPermit("a", time.Hour), script.NotHeld)
		d.Want("release", d.ReleasePermit("a"), script.NotHeld)
		if _, err := d.AcquirePermitOnce(scripttest.Permit{ID: "b", N: 1}); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			d.Errorf("acquire: %v", err)
		}
	})
}

// Every script that grants permits does so only on a trusted server, and does the rest of its work on any server.
func TestAServerThatIsNotTrustedGrantsNoPermit(t *testing.T) {
	server := redistest.Lent(t)
	for name, op := range map[string]func(d *scripttest.Driver, token int64) scripttest.Operation{
		"acquire": func(d *scripttest.Driver, _ int64) scripttest.Operation {
			return scripttest.Permit{ID: "c", N: 2}.Operation(d)
		},
		"poll": func(d *scripttest.Driver, _ int64) scripttest.Operation { return d.PermitPolls("w") },
		"release": func(d *scripttest.Driver, _ int64) scripttest.Operation {
			return &script.Release{Keys: d.Keys, ID: scripttest.ID("a"), Permit: true}
		},
		"cancel": func(d *scripttest.Driver, _ int64) scripttest.Operation {
			return &script.Cancel{Keys: d.Keys, ID: "a", Permit: true, Mark: true}
		},
		"disown": func(d *scripttest.Driver, _ int64) scripttest.Operation {
			return &script.Disown{Keys: d.Keys, UpTo: 10, Permit: true} // which is a
		},
		"force": func(d *scripttest.Driver, token int64) scripttest.Operation {
			return &script.Force{Keys: d.Keys, Token: token, Owner: "owner-a", Permit: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := scripttest.New(t, server.NewClient(t), t.Name())
			token := d.AcquirePermit(scripttest.Permit{ID: "a", N: 1}).Grant.Token
			d.AcquirePermit(scripttest.Permit{ID: "w", N: 1})
			refused := name == "acquire" || name == "poll"
			if refused {
				d.Redis.Del(d.Context(), d.Keys.Holder()) // so that it is free
			}
			if r := newQuarantined(d, time.Hour).send(op(d, token)); (r.Err != nil) != refused {
				t.Errorf("answered with %v", r.Err)
			}
			wantPermits(d, name)
			if !refused && d.Redis.Exists(t.Context(), d.Keys.Holder()).Val() == 0 {
				t.Error("a ticket waits for a permit, and locks do not see it")
			}
		})
	}
}
