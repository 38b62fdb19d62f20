package script_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

func forcePermit(d *scripttest.Driver, token int64, owner string) script.Outcome {
	d.Helper()
	got, err := script.EndedAnswer(d.Send(&script.Force{Keys: d.Keys, Token: token, Owner: owner, Permit: true}))
	if err != nil {
		d.Fatalf("force: %v", err)
	}
	return got
}

// An operator takes away the permit that was seen, and no later one. Its holder is notified, and the next ticket gets the
// permit.
func TestForceEndsThePermitThatWasSeen(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, _ func(time.Duration)) {
		heard := d.Hear()
		a := d.AcquirePermit(scripttest.Permit{ID: "a", N: 2}).Grant.Token
		b := d.AcquirePermit(scripttest.Permit{ID: "b", N: 2, Place: "p", KeepPlace: time.Hour}).Grant.Token // what is said of it is longer
		d.AcquirePermit(scripttest.Permit{ID: "w", N: 2})
		for what, got := range map[string]script.Outcome{
			"another token": forcePermit(d, b+1, "owner-a"),
			"another owner": forcePermit(d, a, "owner-b"),
			"no owner":      forcePermit(d, a, ""),
			"who waits":     forcePermit(d, a, "owner-w"),
		} {
			d.Want(what, got, script.NotHeld)
		}
		d.Want("force", forcePermit(d, b, "owner-b"), script.Done)
		if live := d.LookAtPermits().Live(); !slices.Equal(live, []string{"a", "w"}) {
			d.Errorf("%q have permits", live)
		}
		d.Want("a renewal of what was taken away", d.RenewPermit("b", time.Minute), script.NotHeld)
		if got := heard(); len(got) != 2 || got[0] != "b: lost b" {
			d.Errorf("published: %q", got)
		}
		d.Want("repeated", forcePermit(d, b, "owner-b"), script.NotHeld)
		d.CheckPermits(true)
	})
}

// A permit that only stays taken for its minimum hold may also be taken away.
func TestForceEndsAPermitThatLingers(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, _ func(time.Duration)) {
		token := d.AcquirePermit(scripttest.Permit{ID: "a", N: 1}).Grant.Token
		d.ReleasePermitAs(script.Release{ID: scripttest.ID("a"), Linger: time.Hour})
		d.AcquirePermit(scripttest.Permit{ID: "w", N: 1})
		d.Want("force", forcePermit(d, token, "owner-a"), script.Done)
		d.Want("poll of the next", d.PollPermits("w").Tickets[0].Outcome, script.Held)
		d.CheckPermits(true)
	})
}
