package script_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/suite"
)

// permitTurns lists the possible executions for the holds h1 and h2 of three permits, and for the tickets w1 and w2.
var permitTurns = map[string]func(d *scripttest.Driver) scripttest.Operation{
	"acquire": func(d *scripttest.Driver) scripttest.Operation { return scripttest.Permit{ID: "n1", N: 3}.Operation(d) },
	"acquire in the place of a ticket that got lost": func(d *scripttest.Driver) scripttest.Operation {
		return scripttest.Permit{ID: "n1", N: 3, Predecessor: "w1", PredecessorPlace: 7}.Operation(d)
	},
	"poll": func(d *scripttest.Driver) scripttest.Operation { return d.PermitPolls("w1", "w2") },
	"release": func(d *scripttest.Driver) scripttest.Operation {
		return &script.Release{Keys: d.Keys, ID: scripttest.ID("h1"), Permit: true, Mark: true}
	},
	"release that lingers": func(d *scripttest.Driver) scripttest.Operation {
		return &script.Release{Keys: d.Keys, ID: scripttest.ID("h1"), Permit: true, Linger: time.Second}
	},
	"cancel of a hold": func(d *scripttest.Driver) scripttest.Operation {
		return &script.Cancel{Keys: d.Keys, ID: "h1", Permit: true, Mark: true}
	},
	"cancel of a ticket": func(d *scripttest.Driver) scripttest.Operation {
		return &script.Cancel{Keys: d.Keys, ID: "w1", Permit: true, Mark: true}
	},
	"renewal": func(d *scripttest.Driver) scripttest.Operation {
		return &script.Renew{Keys: d.Keys, ID: scripttest.ID("h1"), Lease: time.Hour}
	},
}

// A Cluster may cut a script off after any of its writes. In the state after that, scripts grant no more than n and count all
// held permits, and the next polls serve all waiters.
func TestPermitScriptsMayEndAfterAnyWrite(t *testing.T) {
	race.FindsNothing(t)
	scripttest.OnClock(t, func(d *scripttest.Driver, later func(time.Duration)) {
		d.Tidy = false // not after a script that was cut off
		for name, run := range permitTurns {
			for _, lapsed := range []bool{false, true} {
				if lapsed && !suite.Full() {
					continue
				}
				for writes := range 30 {
					d.Redis.FlushAll(d.Context())
					d.AcquirePermit(scripttest.Permit{ID: "h1", N: 3, Lease: time.Minute})
					d.AcquirePermit(scripttest.Permit{ID: "h2", N: 3, Weight: 2, Lease: time.Second})
					d.AcquirePermit(scripttest.Permit{ID: "w1", N: 3})
					d.AcquirePermit(scripttest.Permit{ID: "w2", N: 3})
					if lapsed {
						later(time.Second)
					}
					d.EndAfter(writes)
					var ended error
					d.Untidy(func() { ended = d.Send(run(d)).Err })
					d.EndAtTheEnd()
					if ended != nil && !strings.Contains(ended.Error(), "ended after so many writes") {
						d.Fatalf("%s: %v", name, ended)
					}
					s := d.LookAtPermits()
					if wrong := tooMuch(s, 3); wrong != "" {
						d.Fatalf("%s, cut off after %d writes: %s: %+v", name, writes, wrong, s)
					}
					if s.Fields["mode"] != core.Permit.String() {
						d.Fatalf("%s, cut off after %d writes: the hash is %v", name, writes, s.Fields)
					}
					for _, id := range []string{"h1", "h2", "n1"} {
						d.CancelPermit(id)
					}
					for more := true; more; {
						more = d.PollPermits("w1", "w2").More
					}
					d.CheckPermits(true)
					if s := d.LookAtPermits(); len(s.Queue) > 0 || tooMuch(s, 3) != "" {
						d.Fatalf("%s, cut off after %d writes: at the end %+v", name, writes, s)
					}
					if ended == nil {
						break
					}
				}
			}
		}
	})
}

// tooMuch reports permits that exceed n or are not counted. The count may be too great, but not too small.
func tooMuch(s *scripttest.Permits, n int) string {
	held, counted := 0, 0
	for _, id := range s.Live() {
		held += s.All[id].Weight
	}
	for _, c := range s.Fields["used"] {
		counted = 10*counted + int(c-'0')
	}
	switch {
	case held > n:
		return "more is held than there is"
	case held > counted:
		return "not all that is held is counted"
	}
	return ""
}

// With a full memory, the holder of a permit can keep and release it, and waiters get it after that.
func TestWithFullMemoryPermitsAreKeptReleasedAndGranted(t *testing.T) {
	onFullMemory(t, "held and waited for", func(d *scripttest.Driver) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 2})
		d.AcquirePermit(scripttest.Permit{ID: "b", N: 2})
		d.AcquirePermit(scripttest.Permit{ID: "c", N: 2})
		d.AcquirePermit(scripttest.Permit{ID: "e", N: 2})
	}, func(d *scripttest.Driver) {
		before := contentOf(d)
		for _, try := range []bool{false, true} {
			if got, err := d.AcquirePermitOnce(scripttest.Permit{ID: "n", N: 2, Try: try}); err == nil && got.Outcome != script.Queued ||
				err != nil && !strings.Contains(err.Error(), "OOM") {
				d.Errorf("a new one (try: %t): %+v, %v", try, got, err)
			}
		}
		if after := contentOf(d); after != before {
			d.Errorf("a refused call changed\n%s to\n%s", before, after)
		}
		d.Want("renewal", d.RenewPermit("a", time.Hour), script.Done)
		d.Want("release", d.ReleasePermitAs(script.Release{ID: scripttest.ID("a"), Mark: true}), script.Done)
		d.Want("poll", d.PollPermits("c").Tickets[0].Outcome, script.Held)
		d.CancelPermit("b")
		d.Want("poll", d.PollPermits("e").Tickets[0].Outcome, script.Held)
		d.CheckPermits(true)
	})
	onFullMemory(t, "over and waited for", func(d *scripttest.Driver) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 1})
		d.AcquirePermit(scripttest.Permit{ID: "c", N: 1})
		_, rest, _ := strings.Cut(d.Redis.HGet(d.Context(), d.Keys.Holder(), "p:a").Val(), " ")
		d.Redis.HSet(d.Context(), d.Keys.Holder(), "p:a", "1 "+rest, "next", "1")
	}, func(d *scripttest.Driver) {
		d.Want("poll", d.PollPermits("c").Tickets[0].Outcome, script.Held)
	})
	onFullMemory(t, "free", func(d *scripttest.Driver) {
		d.AcquirePermit(scripttest.Permit{ID: "a", N: 2})
		d.ReleasePermit("a")
	}, func(d *scripttest.Driver) {
		if got, err := d.AcquirePermitOnce(scripttest.Permit{ID: "n", N: 2}); err == nil || !strings.Contains(err.Error(), "OOM") {
			d.Errorf("a new one: %+v, %v", got, err)
		}
		if s := d.LookAtPermits(); len(s.Fields) > 0 {
			d.Errorf("a refused call has left %v", s.Fields)
		}
	})
}
