package script_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// Scripts that run twice, and late, when there are readers.

func TestARepeatedReadAnswersTheSame(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		first := d.Read("a")
		before := d.Look()
		if got := d.Read("a"); got.Outcome != script.Held || got.Grant.Token != first.Grant.Token {
			d.Errorf("the second run: %+v, the first: %+v", got, first)
		}
		after := d.Look()
		if r, was := after.Readers()["a"], before.Readers()["a"]; r.Since != was.Since || r.Ends.Before(was.Ends) {
			d.Errorf("after the second run the server has of a %+v, before %+v", r, was)
		}
		d.Write("w")
		if got := d.Read("a"); got.Outcome != script.Held || got.Grant.Waiting != 1 {
			d.Errorf("a third run while a writer waits: %+v", got)
		}
		queued := d.Read("b")
		d.WantQueued("b", queued, 1, 2)
		if got := d.Read("b"); got.Outcome != script.Queued || got.Place != queued.Place || got.Wait.Position != 1 || got.Wait.Queued != 2 {
			d.Errorf("b again: %+v, want %+v", got, queued)
		}
		d.WantReaders("a")
	})
}

// A copy of acquire that was stuck on its way must not take back what a renewal gave.
func TestALateReadDoesNotShortenTheLease(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		for _, waiting := range []bool{false, true} {
			d.Acquire(scripttest.Acquire{ID: "a", Mode: core.Read, Lease: time.Second})
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

// A copy may find that the lock has become free while the first one's ticket waits.
func TestALateReadOfATicketIsOneHold(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Write("w")
		d.Read("a")
		d.Read("b")
		d.Redis.Del(d.Context(), d.Keys.Holder()) // its lease ran out
		got := d.Read("a")
		d.WantHeld("a late copy", got)
		if left := d.Ends("a").Sub(d.Look().Now); left < scripttest.Lease-2*time.Second {
			d.Errorf("it learns that it reads for %v, and does for %v", scripttest.Lease, left)
		}
		d.WantReaders("a", "b")
		if sc := d.Look(); sc.Queue.Exists() || sc.Tickets.Exists() {
			d.Errorf("tickets are left: %v", sc)
		}
	})
}

func TestAReadAfterItsCancelIsRefused(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Cancel("a") // overtakes
		for _, got := range []script.Acquired{d.Read("a"), d.TryRead("a")} {
			d.Want("acquire", got.Outcome, script.Over)
		}
		d.WantReaders()
		d.Read("b")
		d.Want("acquire beside another reader", d.Read("a").Outcome, script.Over)
		d.WantReaders("b")
		d.Write("w")
		d.Read("c") // waits
		for range 2 {
			d.Cancel("c")
			d.Want("acquire after the ticket was cancelled", d.Read("c").Outcome, script.Over)
		}
		d.WantReaders("b")
		for range 2 {
			d.Cancel("b") // holds
			d.Want("acquire after the hold was cancelled", d.Read("b").Outcome, script.Over)
		}
		d.WantWriter("w")
	})
}

func TestAReadAfterAMarkedReleaseIsRefused(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Read("a")
		d.Want("release", d.ReleaseMarked("a"), script.Done)
		d.Want("a late copy of acquire", d.Read("a").Outcome, script.Over)
		d.WantReaders()
	})
}

// The same owner reads again, under a new id.
func TestLateCopiesDoNotTouchTheNextHold(t *testing.T) {
	for name, next := range map[string]func(d *scripttest.Driver){
		"of a reader": func(d *scripttest.Driver) { d.Read("a2") },
		"of a writer": func(d *scripttest.Driver) { d.Write("a2") },
		"of readers":  func(d *scripttest.Driver) { d.Read("a2"); d.Read("b") },
	} {
		t.Run(name, func(t *testing.T) {
			scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
				d.Read("a")
				d.Want("release", d.Release("a"), script.Done)
				next(d)
				before := d.Look()
				for what, run := range map[string]func() (got, want script.Outcome){
					"release":           func() (got, want script.Outcome) { return d.Release("a"), script.NotHeld },
					"a marked release":  func() (got, want script.Outcome) { return d.ReleaseMarked("a"), script.NotHeld },
					"one with a linger": func() (got, want script.Outcome) { return d.Linger("a", time.Minute), script.NotHeld },
					"renewal":           func() (got, want script.Outcome) { return d.Renew("a", time.Hour).Outcome, script.NotHeld },
					"downgrade":         func() (got, want script.Outcome) { return d.Downgrade("a"), script.NotHeld },
					"poll":              func() (got, want script.Outcome) { return d.PollOne("a"), script.Over },
					"cancel":            func() (got, want script.Outcome) { return d.Cancel("a"), script.Done },
				} {
					got, want := run()
					d.Want("a late "+what, got, want)
					if after := d.Look(); !after.Holder.Same(&before.Holder) || after.Holder.TTL > before.Holder.TTL {
						d.Errorf("a late %s: the hold is %v, it was %v", what, after.Holder, before.Holder)
					}
				}
			})
		})
	}
}

// Ids of readers and of writers differ by where they stand, not by what they look like.
func TestAWritersIDDoesNothingToReadersNorTheReverse(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		nothing := func(id string) {
			d.Helper()
			before := d.Look()
			for name, run := range map[string]func() (any, error){
				"release":   func() (any, error) { return d.Eval("release", d.FiveKeys(), id) },
				"renew":     func() (any, error) { return d.Eval("renew", d.FiveKeys()[:1], id, time.Hour.Milliseconds()) },
				"downgrade": func() (any, error) { return d.Eval("downgrade", d.FiveKeys(), id) },
			} {
				const notHeld = int64(0)
				if answer, err := run(); err != nil || answer != notHeld {
					d.Errorf("%s of %q: %v, %v", name, id, answer, err)
				}
			}
			if after := d.Look(); !after.Holder.Same(&before.Holder) || !after.Queue.Same(&before.Queue) ||
				!after.ReadQueue.Same(&before.ReadQueue) || after.Holder.TTL > before.Holder.TTL {
				d.Errorf("%s changed %v to %v", id, before, after)
			}
		}
		d.Read("r")
		d.Write("w")
		nothing("w") // a ticket
		nothing("x")
		for _, id := range []string{"", "read", "reader:r", "mode", "#readers"} {
			nothing(id)
		}
		d.Cancel("w")
		d.WantReaders("r")
		d.Release("r")
		d.Write("w2")
		d.Read("r2")
		nothing("r2")
		for _, id := range []string{"", "write", "#readers"} {
			nothing(id)
		}
		d.Cancel("r2")
		d.WantWriter("w2")
	})
}

func TestCancelOfAnAdmittedReaderAdmitsTheNext(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Write("w")
		d.Read("r")
		d.Write("v")
		d.Release("w")
		d.WantReaders("r")
		d.Cancel("r") // its caller has gone meanwhile
		d.WantWriter("v")
		d.Cancel("r")
		d.WantWriter("v")
	})
}

// A ticket that got lost is queued again in its old place, in front of those who came later.
func TestALostReadersTicketComesBack(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Write("w")
		lost := d.Read("r")
		d.Read("s")
		d.Redis.ZRem(d.Context(), d.Keys.ReadQueue(), "r")
		d.Redis.HDel(d.Context(), d.Keys.Tickets(), "r", "@r")
		d.Redis.ZAddXX(d.Context(), d.Keys.Queue(), member(script.ReadersTicket, d.Look().ReadQueue.Fields["s"])) // as if it had expired
		if got := d.Poll("r").Tickets; got[0].Outcome != script.Over {
			d.Errorf("a lost ticket: %+v", got[0])
		}
		back := d.Acquire(scripttest.Acquire{ID: "r2", Mode: core.Read, Predecessor: "r", PredecessorPlace: lost.Place})
		d.WantQueued("the new ticket", back, 1, 2)
		if back.Place != lost.Place {
			d.Errorf("its place is %d, want %d", back.Place, lost.Place)
		}
		d.Want("a late copy of the old acquire", d.Read("r").Outcome, script.Over)
		d.Release("w")
		d.WantReaders("r2", "s")
	})
}

// A hold for reading can be given up for one that excludes others, and the reverse.
func TestHandOverBetweenTheSides(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Read("r1")
		for range 2 { // its reply was lost
			got := d.Acquire(scripttest.Acquire{ID: "w1", Mode: core.Write, Predecessor: "r1"})
			d.WantHeld("a writer in the place of the only reader", got)
		}
		d.Write("v")
		for range 2 { // it waits when the writer's phase ends
			d.WantHeld("a reader in the place of a writer", d.Acquire(scripttest.Acquire{ID: "r2", Mode: core.Read, Predecessor: "w1"}))
		}
		d.WantReaders("r2")
		d.Release("r2")
		d.WantWriter("v")
	})
}

// Whatever a process has done last before it is killed, others go on within the bounds.
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
