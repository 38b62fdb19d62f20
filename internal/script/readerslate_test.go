package script_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// Scripts that run twice, and late, when there are readers.

// A delayed copy of an acquire must not shorten a lease that was renewed.
func TestALateReadDoesNotShortenTheLease(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		for _, waiting := range []bool{false, true} {
			d.Read("a")
			d.Want("renewal", d.Renew("a", time.Hour).Outcome, script.Done)
			ends := d.Ends("a")
			if waiting {
				d.Write("w")
			}
			if got := d.Acquire(scripttest.Acquire{ID: "a", Mode: core.Read, Lease: time.Second}); got.Outcome != script.Held {
				d.Errorf("a late copy: %+v", got)
			}
			if got := d.Ends("a"); got.Before(ends) {
				d.Errorf("a late copy shortens the lease by %v", ends.Sub(got))
			}
		}
	})
}

// Whatever a process did last before it was killed, others continue within the bounds.
func TestAProcessMayEndAfterAnyScript(t *testing.T) {
	for name, last := range map[string]func(d *scripttest.Driver){
		"acquire":             func(d *scripttest.Driver) { d.Read("dead") },
		"acquire of a writer": func(d *scripttest.Driver) { d.Write("dead") },
		"queueing":            func(d *scripttest.Driver) { d.Write("w"); d.Read("dead"); d.Release("w") },
		"queueing to write":   func(d *scripttest.Driver) { d.Read("r"); d.Write("dead"); d.Release("r") },
		"queueing behind":     func(d *scripttest.Driver) { d.Read("r"); d.Write("dead"); d.Read("dead2"); d.Release("r") },
		"a wait": func(d *scripttest.Driver) {
			d.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write, Lease: time.Second})
			d.Read("dead")
		},
		"a wait for readers": func(d *scripttest.Driver) {
			d.Acquire(scripttest.Acquire{ID: "r", Mode: core.Read, Lease: time.Second})
			d.Write("dead")
		},
		"downgrade":           func(d *scripttest.Driver) { d.Write("dead"); d.Read("dead2"); d.Write("dead3"); d.Downgrade("dead") },
		"release":             func(d *scripttest.Driver) { d.Write("dead"); d.Release("dead") },
		"release with a mark": func(d *scripttest.Driver) { d.Read("dead"); d.ReleaseMarked("dead") },
		"renewal":             func(d *scripttest.Driver) { d.Read("dead"); d.Renew("dead", scripttest.Lease) },
		"cancel":              func(d *scripttest.Driver) { d.Read("r"); d.Write("dead"); d.Cancel("dead"); d.Release("r") },
		"a kept place":        func(d *scripttest.Driver) { d.Write("w"); d.Keep("dead", "t", time.Minute); d.Release("w") },
	} {
		t.Run(name, func(t *testing.T) {
			scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
				last(d)
				got := d.Acquire(scripttest.Acquire{ID: "alive", Mode: core.Write})
				took := time.Duration(0)
				for ; got.Outcome == script.Queued; took += script.PollInterval {
					if took > scripttest.Lease+script.AcceptWindow+4*script.PollInterval {
						d.Fatalf("after %v it got %+v", took, got)
					}
					later(script.PollInterval)
					ticket := d.Poll("alive").Tickets[0]
					got = script.Acquired{Outcome: ticket.Outcome, Grant: ticket.Grant}
				}
				d.WantHeld("the other one", got)
				d.Release("alive")
				d.WantNothingLeft()
			})
		})
	}
}
