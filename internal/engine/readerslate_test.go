package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// Scripts that run twice, and late, when readers are among those who ask.

func TestARepeatedReadAnswersTheSame(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		first := d.read("a")
		before := d.look()
		if got := d.read("a"); got.kind != 1 || got.token != first.token {
			d.Errorf("the second run: %+v, the first: %+v", got, first)
		}
		after := d.look()
		if r, was := after.readers()["a"], before.readers()["a"]; r.since != was.since || r.ends.Before(was.ends) {
			d.Errorf("after the second run the server has of a %+v, before %+v", r, was)
		}
		d.write("w")
		if got := d.read("a"); got.kind != 1 || got.others != 1 {
			d.Errorf("a third run while a writer waits: %+v", got)
		}
		queued := d.read("b")
		d.wantQueued("b", queued, 1, 2)
		if got := d.read("b"); got.kind != 0 || got.place != queued.place || got.position != 1 || got.total != 2 {
			d.Errorf("b again: %+v, want %+v", got, queued)
		}
		d.wantReaders("a")
	})
}

// A copy of acquire that was stuck on its way must not take back what a renewal gave.
func TestALateReadDoesNotShortenTheLease(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		for _, waiting := range []bool{false, true} {
			d.asks(ask{id: "a", mode: core.Read, lease: time.Second})
			d.wantKind("renewal", min(d.renew("a", time.Hour), 1), 1)
			ends := d.ends("a")
			if waiting {
				d.write("w")
			}
			if got := d.asks(ask{id: "a", mode: core.Read, lease: time.Second}); got.kind != 1 {
				d.Errorf("a late copy: %+v", got)
			}
			if got := d.ends("a"); got.Before(ends) {
				d.Errorf("a late copy shortens the lease by %v", ends.Sub(got))
			}
		}
	})
}

// A copy may find that the lock has become free while the first one's ticket waits.
func TestALateReadOfATicketIsOneHold(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("w")
		d.read("a")
		d.read("b")
		d.rdb.Del(d.Context(), d.name.holder) // its lease ran out
		got := d.read("a")
		d.wantHeld("a late copy", got)
		if left := d.ends("a").Sub(d.look().now); left < askedLease-2*time.Second {
			d.Errorf("it is told that it reads for %v, and does for %v", askedLease, left)
		}
		d.wantReaders("a", "b")
		if sc := d.look(); sc.queue.exists() || sc.tickets.exists() {
			d.Errorf("tickets are left: %v", sc)
		}
	})
}

func TestAReadAfterItsCancelIsRefused(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.cancel("a") // overtakes
		for _, got := range []told{d.read("a"), d.tryRead("a")} {
			d.wantKind("acquire", got.kind, -1)
		}
		d.wantReaders()
		d.read("b")
		d.wantKind("acquire beside another reader", d.read("a").kind, -1)
		d.wantReaders("b")
		d.write("w")
		d.read("c") // waits
		for range 2 {
			d.cancel("c")
			d.wantKind("acquire after the ticket was cancelled", d.read("c").kind, -1)
		}
		d.wantReaders("b")
		for range 2 {
			d.cancel("b") // holds
			d.wantKind("acquire after the hold was cancelled", d.read("b").kind, -1)
		}
		d.wantWriter("w")
	})
}

func TestAReadAfterAMarkedReleaseIsRefused(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.read("a")
		d.wantKind("release", d.run(d.scripts.release, d.keys(d.name.done("a")), "a", 0, doneMillis, 0).int(), 1)
		d.wantKind("a late copy of acquire", d.read("a").kind, -1)
		d.wantReaders()
	})
}

// The same owner reads again, under a new id.
func TestLateCopiesDoNotTouchTheNextHold(t *testing.T) {
	for name, next := range map[string]func(d *desk){
		"of a reader": func(d *desk) { d.read("a2") },
		"of a writer": func(d *desk) { d.write("a2") },
		"of readers":  func(d *desk) { d.read("a2"); d.read("b") },
	} {
		t.Run(name, func(t *testing.T) {
			onTidyDesk(t, func(d *desk) {
				d.read("a")
				d.wantKind("release", d.release("a", 0), 1)
				next(d)
				before := d.look()
				for what, run := range map[string]func() int64{
					"release":           func() int64 { return d.release("a", 0) },
					"a marked release":  func() int64 { return d.release("a", doneTTL) },
					"one with a linger": func() int64 { return d.run(d.scripts.release, d.keys(), "a", 60_000, 0, 0).int() },
					"renewal":           func() int64 { return d.renew("a", time.Hour) },
					"downgrade":         func() int64 { return d.downgrade("a") },
					"poll":              func() int64 { return d.poll("a") + 1 },
					"cancel":            func() int64 { d.cancel("a"); return 0 },
				} {
					d.wantKind("a late "+what, run(), 0)
					if after := d.look(); !after.holder.same(&before.holder) || after.holder.ttl > before.holder.ttl {
						d.Errorf("a late %s: the hold is %v, it was %v", what, after.holder, before.holder)
					}
				}
			})
		})
	}
}

// Ids of readers and of writers are told apart by where they stand, not by what they look like.
func TestAWritersIDDoesNothingToReadersNorTheReverse(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		nothing := func(id string) {
			d.Helper()
			before := d.look()
			d.wantKind("release of "+id, d.release(id, 0), 0)
			d.wantKind("renewal of "+id, d.renew(id, time.Hour), 0)
			d.wantKind("downgrade of "+id, d.downgrade(id), 0)
			if after := d.look(); !after.holder.same(&before.holder) || !after.queue.same(&before.queue) ||
				!after.crowd.same(&before.crowd) || after.holder.ttl > before.holder.ttl {
				d.Errorf("%s changed %v to %v", id, before, after)
			}
		}
		d.read("r")
		d.write("w")
		nothing("w") // a ticket
		nothing("x")
		for _, id := range []string{"", "read", "reader:r", "mode", "#readers"} {
			nothing(id)
		}
		d.cancel("w")
		d.wantReaders("r")
		d.release("r", 0)
		d.write("w2")
		d.read("r2")
		nothing("r2")
		for _, id := range []string{"", "write", "#readers"} {
			nothing(id)
		}
		d.cancel("r2")
		d.wantWriter("w2")
	})
}

func TestCancelOfAReaderThatWasLetInLetsTheNextIn(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("w")
		d.read("r")
		d.write("v")
		d.release("w", 0)
		d.wantReaders("r")
		d.cancel("r") // its caller has gone meanwhile
		d.wantWriter("v")
		d.cancel("r")
		d.wantWriter("v")
	})
}

// A ticket that got lost is queued again in its old place, in front of those who came later.
func TestALostReadersTicketComesBack(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("w")
		lost := d.read("r")
		d.read("s")
		d.rdb.ZRem(d.Context(), d.name.readers(), "r")
		d.rdb.HDel(d.Context(), d.name.tickets(), "r", "@r")
		d.rdb.ZAddXX(d.Context(), d.name.queue(), zAt(crowdTicket, d.look().crowd.fields["s"])) // as if it had expired
		if got, _ := d.polls("r"); got[0].kind != -1 {
			d.Errorf("a lost ticket: %+v", got[0])
		}
		back := d.asks(ask{id: "r2", mode: core.Read, former: "r", place: lost.place, mark: true})
		d.wantQueued("the new ticket", back, 1, 2)
		if back.place != lost.place {
			d.Errorf("its place is %d, want %d", back.place, lost.place)
		}
		d.wantKind("a late copy of the old acquire", d.read("r").kind, -1)
		d.release("w", 0)
		d.wantReaders("r2", "s")
	})
}

// A hold for reading can be given up for one that excludes others, and the reverse.
func TestHandOverBetweenTheSides(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.read("r1")
		for range 2 { // its reply was lost
			got := d.asks(ask{id: "w1", mode: core.Write, former: "r1"})
			d.wantHeld("a writer in the place of the only reader", got)
		}
		d.write("v")
		for range 2 { // it waits when the writer's phase ends
			d.wantHeld("a reader in the place of a writer", d.asks(ask{id: "r2", mode: core.Read, former: "w1"}))
		}
		d.wantReaders("r2")
		d.release("r2", 0)
		d.wantWriter("v")
	})
}

// Whatever a process has done last before it is killed, others go on within the bounds.
func TestAProcessMayEndAfterAnyScript(t *testing.T) {
	for name, last := range map[string]func(d *desk){
		"acquire":             func(d *desk) { d.read("dead") },
		"acquire of a writer": func(d *desk) { d.write("dead") },
		"queueing":            func(d *desk) { d.write("w"); d.read("dead"); d.release("w", 0) },
		"queueing to write":   func(d *desk) { d.read("r"); d.write("dead"); d.release("r", 0) },
		"queueing behind":     func(d *desk) { d.read("r"); d.write("dead"); d.read("dead2"); d.release("r", 0) },
		"a wait":              func(d *desk) { d.asks(ask{id: "w", mode: core.Write, lease: time.Second}); d.read("dead") },
		"a wait for readers":  func(d *desk) { d.asks(ask{id: "r", mode: core.Read, lease: time.Second}); d.write("dead") },
		"downgrade":           func(d *desk) { d.write("dead"); d.read("dead2"); d.write("dead3"); d.downgrade("dead") },
		"release":             func(d *desk) { d.write("dead"); d.release("dead", 0) },
		"release with a mark": func(d *desk) { d.read("dead"); d.release("dead", doneTTL) },
		"renewal":             func(d *desk) { d.read("dead"); d.renew("dead", askedLease) },
		"cancel":              func(d *desk) { d.read("r"); d.write("dead"); d.cancel("dead"); d.release("r", 0) },
		"a kept place":        func(d *desk) { d.write("w"); d.keeps("dead", "t", time.Minute); d.release("w", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			onClock(t, func(d *desk, later func(time.Duration)) {
				last(d)
				got := d.asks(ask{id: "alive", mode: core.Write})
				took := time.Duration(0)
				for ; got.kind == 0; took += pollInterval {
					if took > askedLease+acceptWindow+4*pollInterval {
						d.Fatalf("after %v it is told %+v", took, got)
					}
					later(pollInterval)
					all, _ := d.polls("alive")
					got = all[0]
				}
				d.wantHeld("the other one", got)
				d.release("alive", 0)
				d.wantNothingLeft()
			})
		})
	}
}
