package script_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

func TestReadersAndWritersTakeTurns(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Write("w1")
		d.Read("r1")
		d.Write("w2")
		d.Read("r2") // behind a writer, and yet it waits when the phase begins
		d.Write("w3")
		d.Want("release of a writer", d.Release("w1"), script.Done)
		d.WantReaders("r1", "r2")
		d.WantQueued("a reader that comes later", d.Read("r3"), 1, 3)
		if got := d.TryRead("try"); got.Outcome != script.Queued {
			d.Errorf("a try to read while writers wait: %+v", got)
		}
		d.Want("release of a reader", d.Release("r1"), script.Done)
		d.WantReaders("r2")
		d.Want("release of the last reader", d.Release("r2"), script.Done)
		d.WantWriter("w2")
		d.WantReaders()
		d.Read("r4")
		d.Release("w2")
		d.WantReaders("r3", "r4")
		d.Release("r3")
		d.Release("r4")
		d.WantWriter("w3")
		d.Release("w3")
		d.WantNothingLeft()
	})
}

// The order is the order in which the server saw the tickets, even if it saw them in the same instant, or while its clock was
// behind the counter.
func TestPlacesOfBothSidesAreInOrder(t *testing.T) {
	scripttest.OnClock(t, func(d *scripttest.Driver, _ func(time.Duration)) {
		d.Write("held")
		last := int64(0)
		for i, request := range []func(string) script.Acquired{d.Write, d.Read, d.Fair, d.Read, d.Write} {
			if got := request(fmt.Sprint("q", i)); got.Place <= last {
				d.Errorf("number %d has the place %d after %d", i, got.Place, last)
			} else {
				last = got.Place
			}
		}
		d.Redis.Del(d.Context(), d.Keys.Holder())
		d.Settle()
		d.WantWriter("q0")
	})
}

// The number in a push is greater than every earlier one, so that no process takes an old push for a new one.
func TestPushesAreNumbered(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		heard := d.Hear()
		last := int64(0)
		for i := range 3 {
			w, r, v := fmt.Sprint("w", i), fmt.Sprint("r", i), fmt.Sprint("v", i)
			write := d.Write(w)
			d.Write(v)
			queued := d.Read(r)
			last = max(last, write.Grant.Token, queued.Stamp)
			d.Release(w)
			var number, token, count, others int64
			got := heard()
			if len(got) != 1 {
				d.Fatalf("published: %q", got)
			}
			if _, err := fmt.Sscanf(got[0], r+": grant "+r+" %d %d %d %d "+d.Keys.Holder(), &number, &token, &count, &others); err != nil {
				d.Fatalf("published: %q: %v", got, err)
			}
			if number <= last || token != write.Grant.Token || count != 1 || others != 1 {
				d.Errorf("published: %q after %d, of a writer with token %d", got, last, write.Grant.Token)
			}
			last = number
			d.Release(r)
			all := d.Poll(v).Tickets
			if all[0].Grant.Token <= last {
				d.Errorf("a writer has token %d after a push with number %d", all[0].Grant.Token, last)
			}
			last = all[0].Grant.Token
			d.Release(v)
			heard()
		}
	})
}

func TestReadersAreNotifiedOnceThatAWriterWaits(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		heard := d.Hear()
		d.Read("a")
		d.Read("b")
		wanted := func(want string) {
			d.Helper()
			if got := d.Look().Holder.Fields["wanted"]; got != want {
				d.Errorf("wanted is %q, want %q", got, want)
			}
		}
		wanted("0")
		d.Acquire(scripttest.Acquire{ID: "try", Mode: core.Write, Try: true})
		wanted("0")
		d.Write("w")
		wanted("1")
		got := heard()
		slices.Sort(got)
		if !slices.Equal(got, []string{"a: contended a", "b: contended b"}) {
			d.Errorf("published: %q", got)
		}
		d.Write("w")
		d.Write("v")
		d.Read("c")
		d.Poll("w", "v", "c")
		if got := heard(); len(got) > 0 {
			d.Errorf("published again: %q", got)
		}
		for _, id := range []string{"a", "b"} {
			d.WantRenewed("renewal of "+id, d.Renew(id, time.Minute), scripttest.Contended)
		}
		if all := d.Poll("a").Tickets; all[0].Grant.Waiting != 2 {
			d.Errorf("a reader got %+v", all[0])
		}
		d.Cancel("w")
		wanted("1")
		d.Cancel("v")
		wanted("0")
	})
}

// The accept window of a writer's grant does not apply to readers.
func TestGrantsToReadersWaitToBeAccepted(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Write("w")
		d.Acquire(scripttest.Acquire{ID: "r", Mode: core.Read, Lease: time.Minute})
		d.Read("s")
		d.Release("w")
		for _, id := range []string{"r", "s"} {
			if left := d.Ends(id).Sub(d.Look().Now); left > scripttest.AcceptWindow || left < scripttest.AcceptWindow/2 {
				d.Errorf("the grant to %s lasts %v, want %v", id, left, scripttest.AcceptWindow)
			}
		}
		d.Want("poll of one", d.PollOne("r"), script.Held)
		s := d.Ends("s")
		if left := d.Ends("r").Sub(d.Look().Now); left <= scripttest.AcceptWindow {
			d.Errorf("accepted, it lasts %v", left)
		}
		d.WantRenewed("renewal of the other", d.Renew("s", time.Second), scripttest.Renewed)
		if got := d.Ends("s"); !got.Equal(s) {
			d.Errorf("the other's hold ends at %v, want %v", got, s)
		}
		if ttl := d.Redis.PTTL(d.Context(), d.Keys.Holder()).Val(); ttl <= scripttest.AcceptWindow {
			d.Errorf("the key lasts %v", ttl)
		}
	})
}

func TestMinimumHoldOfAReader(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Read("a")
		d.Acquire(scripttest.Acquire{ID: "b", Mode: core.Read, Lease: time.Second})
		const linger = time.Minute
		d.Want("release", d.Linger("a", linger), script.Done)
		d.Want("a late copy", d.Linger("a", linger), script.NotHeld)
		d.WantRenewed("renewal", d.Renew("a", time.Minute), scripttest.NotRenewed)
		d.WantHeld("another reader beside it", d.TryRead("c"))
		d.Release("b")
		d.Release("c")
		if got := d.Acquire(scripttest.Acquire{ID: "w", Mode: core.Write, Try: true}); got.Outcome != script.Queued {
			d.Errorf("a writer's try while the key stays taken: %+v", got)
		}
		d.Write("w")
		readers := d.Look().Readers()
		for id := range readers {
			if left := readers[id].Ends.Sub(d.Look().Now); left > linger || left < linger/2 {
				d.Errorf("it stays taken for %v, want %v", left, linger)
			}
			d.Expire(id)
		}
		if len(readers) != 1 {
			d.Errorf("readers that keep the key taken: %v", readers)
		}
		d.Want("poll of the writer after that", d.PollOne("w"), script.Held)
	})
}

func TestForceEndsTheReadersThatWereSeen(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		heard := d.Hear()
		token := d.Read("a").Grant.Token
		d.Read("b")
		d.Write("w")
		heard()
		for what, run := range map[string]func() script.Outcome{
			"another token": func() script.Outcome { return d.Force(token+1, "owner-a") },
			"another owner": func() script.Outcome { return d.Force(token, "owner-w") },
			"no owner":      func() script.Outcome { return d.Force(token, "") },
			"a common word": func() script.Outcome { return d.Force(token, "read") },
		} {
			d.Want(what, run(), script.NotHeld)
		}
		d.WantReaders("a", "b")
		d.Want("force", d.Force(token, "owner-a"), script.Done)
		d.Want("repeated", d.Force(token, "owner-a"), script.NotHeld)
		d.WantReaders("b")
		d.WantRenewed("a renewal of what was taken away", d.Renew("a", time.Minute), scripttest.NotRenewed)
		d.Want("force of the last one", d.Force(token, "owner-b"), script.Done)
		d.WantWriter("w")
		got := heard()
		if len(got) != 3 || got[0] != "a: lost a" || got[1] != "b: lost b" {
			d.Errorf("published: %q", got)
		}
		d.Want("force of the writer with the readers' token", d.Force(token, "owner-w"), script.NotHeld)
		d.WantWriter("w")
	})
}

// One logical execution may hold read locks through several processes.
func TestForceEndsAllHoldsOfAnOwner(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		token := d.Read("a").Grant.Token
		d.Acquire(scripttest.Acquire{ID: "b", Mode: core.Read, Owner: "owner-a"})
		d.Write("w")
		d.Want("force", d.Force(token, "owner-a"), script.Done)
		d.WantWriter("w")
	})
}
