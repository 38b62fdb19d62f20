package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

func TestReadersAndWritersTakeTurns(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("w1")
		d.read("r1")
		d.write("w2")
		d.read("r2") // behind a writer, and yet it waits when the phase begins
		d.write("w3")
		d.wantKind("release of a writer", d.release("w1", 0), 1)
		d.wantReaders("r1", "r2")
		d.wantQueued("a reader that comes later", d.read("r3"), 1, 3)
		if got := d.tryRead("try"); got.kind != 0 {
			d.Errorf("a try to read while writers wait: %+v", got)
		}
		d.wantKind("release of a reader", d.release("r1", 0), 1)
		d.wantReaders("r2")
		d.wantKind("release of the last reader", d.release("r2", 0), 1)
		d.wantWriter("w2")
		d.wantReaders()
		d.read("r4")
		d.release("w2", 0)
		d.wantReaders("r3", "r4")
		d.release("r3", 0)
		d.release("r4", 0)
		d.wantWriter("w3")
		d.release("w3", 0)
		d.wantNothingLeft()
	})
}

func TestWhenNobodyOfTheOtherSideWaitsTheSameHasItsTurn(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("w1")
		d.write("w2")
		d.release("w1", 0)
		d.wantWriter("w2")
		d.read("r1")
		d.release("w2", 0)
		d.wantReaders("r1")
		d.read("r2") // nobody waits
		d.wantReaders("r1", "r2")
	})
}

// What ends otherwise than by a script leaves the turn to the first in the queue.
func TestIfItIsUnknownWhatEndedTheFirstInTheQueueHasItsTurn(t *testing.T) {
	for name, order := range map[string][]string{"a writer": {"w", "r", "v", "s"}, "a reader": {"r", "w", "s", "v"}} {
		t.Run(name, func(t *testing.T) {
			onTidyDesk(t, func(d *desk) {
				d.write("held")
				for _, id := range order {
					if id < "t" {
						d.read(id)
					} else {
						d.write(id)
					}
				}
				d.rdb.Del(d.Context(), d.name.holder) // its lease ran out
				d.polls("v")
				if order[0] == "w" {
					d.wantWriter("w")
					d.wantReaders()
				} else {
					d.wantReaders("r", "s")
				}
			})
		})
	}
}

// The order is that in which the server saw them, also of those that it saw in the same instant, or while
// its clock was behind the counter.
func TestPlacesOfBothSidesAreInOrder(t *testing.T) {
	onClock(t, func(d *desk, _ func(time.Duration)) {
		d.write("held")
		last := int64(0)
		for i, ask := range []func(string) told{d.write, d.read, d.fair, d.read, d.write} {
			if got := ask(fmt.Sprint("q", i)); got.place <= last {
				d.Errorf("number %d has the place %d after %d", i, got.place, last)
			} else {
				last = got.place
			}
		}
		d.rdb.Del(d.Context(), d.name.holder)
		d.settles()
		d.wantWriter("q0")
	})
}

// A reader's phase that ends because the last one's time is over ends like any other.
func TestAWriterFollowsReadersThatExpire(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.read("a")
		d.write("w")
		d.read("r")
		d.expire("a")
		all, _ := d.polls("r", "w")
		if all[0].kind != 0 || all[1].kind != 1 {
			d.Errorf("the reader that waits behind the writer is told %+v, the writer %+v", all[0], all[1])
		}
		d.wantWriter("w")
	})
}

func TestAWriterThatGivesUpLetsReadersIn(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		heard := d.hear()
		token := d.read("a").token
		d.write("w1")
		d.write("w2")
		d.read("r")
		d.read("s")
		d.cancel("w1")
		d.wantReaders("a")
		d.wantKind("renewal while a writer waits", d.renew("a", time.Minute), 2)
		heard()
		d.cancel("w2")
		d.wantReaders("a", "r", "s")
		d.wantKind("renewal when none waits", d.renew("a", time.Minute), 1)
		all, _ := d.polls("r", "s")
		var want []string
		for i, id := range []string{"r", "s"} {
			if all[i].kind != 1 || all[i].token != token || all[i].others != 0 {
				d.Errorf("%s is told %+v", id, all[i])
			}
			number, _ := d.look().counter()
			want = append(want, fmt.Sprintf("%s: grant %s %d %d 1 0 %s", id, id, number, token, d.name.holder))
		}
		if got := heard(); !slices.Equal(got, want) {
			d.Errorf("published: %q, want %q", got, want)
		}
	})
}

// The number in a push is greater than every one before, so that nobody takes an old push for a new one.
func TestPushesAreNumbered(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		heard := d.hear()
		last := int64(0)
		for i := range 3 {
			w, r, v := fmt.Sprint("w", i), fmt.Sprint("r", i), fmt.Sprint("v", i)
			write := d.write(w)
			d.write(v)
			queued := d.read(r)
			last = max(last, write.token, queued.counter)
			d.release(w, 0)
			var number, token, count, others int64
			got := heard()
			if len(got) != 1 {
				d.Fatalf("published: %q", got)
			}
			if _, err := fmt.Sscanf(got[0], r+": grant "+r+" %d %d %d %d "+d.name.holder, &number, &token, &count, &others); err != nil {
				d.Fatalf("published: %q: %v", got, err)
			}
			if number <= last || token != write.token || count != 1 || others != 1 {
				d.Errorf("published: %q after %d, of a writer with token %d", got, last, write.token)
			}
			last = number
			d.release(r, 0)
			all, _ := d.polls(v)
			if all[0].token <= last {
				d.Errorf("a writer has token %d after a push with number %d", all[0].token, last)
			}
			last = all[0].token
			d.release(v, 0)
			heard()
		}
	})
}

func TestReadersAreToldOnceThatAWriterWaits(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		heard := d.hear()
		d.read("a")
		d.read("b")
		wanted := func(want string) {
			d.Helper()
			if got := d.look().holder.fields["wanted"]; got != want {
				d.Errorf("wanted is %q, want %q", got, want)
			}
		}
		wanted("0")
		d.asks(ask{id: "try", mode: core.Write, try: true})
		wanted("0")
		d.write("w")
		wanted("1")
		got := heard()
		slices.Sort(got)
		if !slices.Equal(got, []string{"a: contended a", "b: contended b"}) {
			d.Errorf("published: %q", got)
		}
		d.write("w")
		d.write("v")
		d.read("c")
		d.polls("w", "v", "c")
		if got := heard(); len(got) > 0 {
			d.Errorf("published again: %q", got)
		}
		for _, id := range []string{"a", "b"} {
			d.wantKind("renewal of "+id, d.renew(id, time.Minute), 2)
		}
		if all, _ := d.polls("a"); all[0].others != 2 {
			d.Errorf("a reader is told %+v", all[0])
		}
		d.cancel("w")
		wanted("1")
		d.cancel("v")
		wanted("0")
	})
}

// The time that a writer's grant may take to be accepted is not that of readers.
func TestGrantsToReadersWaitToBeAccepted(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.write("w")
		d.asks(ask{id: "r", mode: core.Read, lease: time.Minute})
		d.read("s")
		d.release("w", 0)
		for _, id := range []string{"r", "s"} {
			if left := d.ends(id).Sub(d.look().now); left > acceptWindow || left < acceptWindow-2*time.Second {
				d.Errorf("the grant to %s lasts %v, want %v", id, left, acceptWindow)
			}
		}
		d.wantKind("poll of one", d.poll("r"), 1)
		s := d.ends("s")
		if left := d.ends("r").Sub(d.look().now); left < acceptWindow+time.Second {
			d.Errorf("accepted, it lasts %v", left)
		}
		d.wantKind("renewal of the other", d.renew("s", time.Second), 1)
		if got := d.ends("s"); !got.Equal(s) {
			d.Errorf("the other's hold ends at %v, want %v", got, s)
		}
		if ttl := d.rdb.PTTL(d.Context(), d.name.holder).Val(); ttl < askedLease-2*time.Second {
			d.Errorf("the key lasts %v", ttl)
		}
	})
}

// A process that is killed in the instant in which it was let in delays a writer by the accept window.
func TestReadersThatDoNotAcceptExpire(t *testing.T) {
	onClock(t, func(d *desk, later func(time.Duration)) {
		d.write("w")
		d.read("dead")
		d.write("v")
		d.release("w", 0)
		d.wantReaders("dead")
		for range 4 {
			later(acceptWindow / 4)
			d.poll("v")
		}
		d.wantWriter("v")
	})
}

func TestMinimumHoldOfAReader(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		d.read("a")
		d.asks(ask{id: "b", mode: core.Read, lease: time.Second})
		d.wantKind("release", d.run(d.scripts.release, d.keys(), "a", 5000, 0, 0).int(), 1)
		d.wantKind("a late copy", d.run(d.scripts.release, d.keys(), "a", 5000, 0, 0).int(), 0)
		d.wantKind("renewal", d.renew("a", time.Minute), 0)
		d.wantHeld("another reader beside it", d.tryRead("c"))
		d.release("b", 0)
		d.release("c", 0)
		if got := d.asks(ask{id: "w", mode: core.Write, try: true}); got.kind != 0 {
			d.Errorf("a writer's try while the key stays taken: %+v", got)
		}
		d.write("w")
		readers := d.look().readers()
		for id := range readers {
			if left := readers[id].ends.Sub(d.look().now); left > 5*time.Second || left < 3*time.Second {
				d.Errorf("it stays taken for %v, want 5 s", left)
			}
			d.expire(id)
		}
		if len(readers) != 1 {
			d.Errorf("what keeps the key taken: %v", readers)
		}
		d.wantKind("poll of the writer after that", d.poll("w"), 1)
	})
}

func TestForceEndsTheReadersThatWereSeen(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		heard := d.hear()
		token := d.read("a").token
		d.read("b")
		d.write("w")
		heard()
		for what, run := range map[string]func() int64{
			"another token": func() int64 { return d.force(token+1, "owner-a") },
			"another owner": func() int64 { return d.force(token, "owner-w") },
			"no owner":      func() int64 { return d.force(token, "") },
			"a common word": func() int64 { return d.force(token, "read") },
		} {
			d.wantKind(what, run(), 0)
		}
		d.wantReaders("a", "b")
		d.wantKind("force", d.force(token, "owner-a"), 1)
		d.wantKind("repeated", d.force(token, "owner-a"), 0)
		d.wantReaders("b")
		d.wantKind("a renewal of what was taken away", d.renew("a", time.Minute), 0)
		d.wantKind("force of the last one", d.force(token, "owner-b"), 1)
		d.wantWriter("w")
		got := heard()
		if len(got) != 3 || got[0] != "a: lost a" || got[1] != "b: lost b" {
			d.Errorf("published: %q", got)
		}
		d.wantKind("force of the writer with the readers' token", d.force(token, "owner-w"), 0)
		d.wantWriter("w")
	})
}

// One logical execution may read by several processes' holds.
func TestForceEndsAllHoldsOfAnOwner(t *testing.T) {
	onTidyDesk(t, func(d *desk) {
		token := d.read("a").token
		keys, args := (&ask{id: "b", mode: core.Read}).run(d)
		args[3] = "owner-a"
		d.run(d.scripts.acquire, keys, args...)
		d.write("w")
		d.wantKind("force", d.force(token, "owner-a"), 1)
		d.wantWriter("w")
	})
}
