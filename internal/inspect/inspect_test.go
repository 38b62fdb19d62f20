package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/test/usertest"
)

func newInspector(d *scripttest.Driver) *inspect.Inspector {
	d.Helper()
	i, err := inspect.New(d.Redis, inspect.Config{Prefix: "lockmw"})
	if err != nil {
		d.Fatal(err)
	}
	return i
}

// all returns the statuses of all locks.
func all(d *scripttest.Driver) (found []*inspect.Status) {
	d.Helper()
	for s, err := range newInspector(d).All(d.Context(), inspect.Scan{Share: 1}) {
		if err != nil {
			d.Fatal(err)
		}
		found = append(found, s)
	}
	return found
}

// status returns the status of the lock.
func status(d *scripttest.Driver) *inspect.Status {
	d.Helper()
	s, err := newInspector(d).Get(d.Context(), d.Key)
	if err != nil {
		d.Fatal(err)
	}
	return s
}

func TestAnInspectorSeesReadersAndTickets(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		if s := status(d); s.Mode != "" || len(s.Holders) != 0 || len(s.Waiters) != 0 {
			d.Errorf("a free lock is %+v", s)
		}
		token := d.Acquire(scripttest.Acquire{ID: "a", Mode: core.Read, Lease: time.Hour, Trace: "00-trace"}).Grant.Token
		d.Read("b")
		d.Read("over")
		d.Write("w")
		d.Acquire(scripttest.Acquire{ID: "r", Mode: core.Read, Subscribed: true})
		d.Keep("f", "t", time.Minute)
		d.Keep("away", "u", time.Minute)
		d.CancelKeeping("away", "u", time.Minute)
		d.Expire("over")
		s := status(d)
		if s.Mode != core.Read.String() || len(s.Holders) != 2 {
			d.Fatalf("it has %+v", s)
		}
		a := s.Holders[0]
		if a.Owner != "owner-a" || a.Process != "a" || a.TraceParent != "00-trace" || a.Token != token ||
			a.TTL > time.Hour || a.TTL < time.Hour-time.Minute || time.Since(a.Since) > time.Minute {
			d.Errorf("the first reader is %+v", a)
		}
		if b := s.Holders[1]; b.Owner != "owner-b" || b.TTL > scripttest.Lease || b.Token != token {
			d.Errorf("the second reader is %+v", b)
		}
		var waiters []string
		for _, w := range s.Waiters {
			waiters = append(waiters, fmt.Sprint(w.Position, " ", w.Ticket, " ", w.Mode))
			if w.Process != w.Ticket || time.Since(w.Since) > time.Minute || w.Seen.Before(w.Since.Truncate(time.Millisecond)) {
				d.Errorf("a waiter is %+v", w)
			}
		}
		if got := fmt.Sprint(waiters); got != "[1 w write 2 r read 3 f fair]" {
			d.Errorf("the queue is %s", got)
		}
		found := all(d)
		if len(found) != 1 || len(found[0].Holders) != 2 || len(found[0].Waiters) != 3 || len(found[0].Kept) != 1 || found[0].Kept[0].Name != "u" {
			d.Errorf("a scan finds %+v", found)
		}
	})
}

func TestAnInspectorTakesTheLockFromAReader(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Read("a")
		d.Read("b")
		d.Write("w")
		for _, h := range status(d).Holders {
			if err := newInspector(d).ForceUnlock(d.Context(), d.Key, h); err != nil {
				d.Errorf("%s: %v", h.Owner, err)
			}
			if err := newInspector(d).ForceUnlock(d.Context(), d.Key, h); !errors.Is(err, core.ErrNotHeld) {
				d.Errorf("%s, once more: %v", h.Owner, err)
			}
		}
		d.WantWriter("w")
	})
}

// go-redis would repeat the script, which then finds no hold.
func TestALostAnswerToAForcedReleaseIsNoHoldThatEndedBefore(t *testing.T) {
	s := redistest.Mini(t)
	wire := s.NewWire()
	insp, locks := usertest.Inspector(t, s.NewClient(t, wire.Use)), usertest.Client(t, s)
	for _, key := range []string{"user:1", "user:2"} {
		usertest.Lock(t, t.Context(), locks, key)
		status, err := insp.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		h := status.Holders[0]
		if key == "user:2" { // the server knows the script now
			wire.LoseReply("lockmw:{user:2}", h.Owner)
		}
		err = insp.ForceUnlock(t.Context(), key, h)
		if lost := key == "user:2"; lost != errors.Is(err, core.ErrUnavailable) || !lost && err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if status, err = insp.Get(t.Context(), key); err != nil || len(status.Holders) > 0 {
			t.Errorf("%s: %+v, %v", key, status, err)
		}
	}
}

func TestForeignHashesAreReportedAsWrongType(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		for _, fields := range [][]any{
			{"mode", "read"}, {"mode", "read", "token", "x", "next", "5", "reader:a", "9 9 i o t"},
			{"mode", "read", "token", "5", "next", "5", "reader:a", "x"}, {"mode", "read", "token", "5", "next", "5", "reader:a", "x 9 i o t"},
			{"id", "a"},
		} {
			d.Redis.Del(d.Context(), d.Keys.Holder())
			d.Redis.HSet(d.Context(), d.Keys.Holder(), fields...)
			if s, err := newInspector(d).Get(d.Context(), d.Key); !errors.Is(err, core.ErrWrongType) {
				d.Errorf("%v is %+v, %v", fields, s, err)
			}
		}
	})
}

func TestAnInspectorShowsThatAKeyOnlyStaysTaken(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		for _, mode := range []core.Mode{core.Exclusive, core.Read} {
			id := mode.String()
			token := d.Acquire(scripttest.Acquire{ID: id, Mode: mode}).Grant.Token
			if s := status(d); len(s.Holders) != 1 || s.Holders[0].Lingers {
				d.Errorf("%v: held, it is %+v", mode, s)
			}
			d.Want("release", d.Linger(id, time.Minute), script.Done)
			s := status(d)
			if len(s.Holders) != 1 || !s.Holders[0].Lingers || s.Holders[0].Owner != "owner-"+id {
				d.Errorf("%v: released, it is %+v", mode, s)
			}
			d.Want("force", d.Force(token, "owner-"+id), script.Done)
			if s := status(d); len(s.Holders) != 0 {
				d.Errorf("%v: taken away, it is %+v", mode, s)
			}
		}
	})
}

func TestAnInspectorListsThePrefixesInUse(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Lock("a")
		for _, key := range []string{"shop:fence", "a:b:{x1}:fence", "a:b:{x2}:fence", ":fence", "{k}:fence", "fence", "other:fenced"} {
			if err := d.Redis.Set(d.Context(), key, 17, 0).Err(); err != nil {
				d.Fatal(err)
			}
		}
		got, err := newInspector(d).Prefixes(d.Context(), inspect.Scan{Share: 1})
		if want := []string{"a:b", "lockmw", "shop"}; err != nil || !slices.Equal(got, want) {
			d.Errorf("%q, %v; want %q", got, err, want)
		}
	})
}

// kept returns the names of the kept places that an Inspector finds.
func kept(d *scripttest.Driver) (names []string) {
	d.Helper()
	i := newInspector(d)
	found, err := i.KeptFor(d.Context(), d.Key, inspect.Scan{Share: 1})
	if err != nil {
		d.Fatal(err)
	}
	s, err := i.Get(d.Context(), d.Key, found...)
	if err != nil {
		d.Fatal(err)
	}
	for _, k := range s.Kept {
		names = append(names, k.Name)
		if k.TTL <= 0 || k.TTL > time.Minute || time.Since(k.Since) > time.Minute {
			d.Errorf("a kept place is %+v", k)
		}
	}
	return names
}

func TestAnInspectorListsKeptPlaces(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		want := func(when string, names ...string) {
			d.Helper()
			if got := kept(d); !slices.Equal(got, names) {
				d.Errorf("%s, places are kept for %q, want %q", when, got, names)
			}
		}
		const first, second = "t {*}", "t" // as strange as names may be
		d.Lock("a")
		d.Keep("b", first, time.Minute)
		d.Keep("c", second, time.Minute)
		want("while both wait")
		d.CancelKeeping("c", second, time.Minute)
		want("with one away", second)
		d.CancelKeeping("b", first, time.Minute)
		want("with both away", first, second)
		d.Keep("d", second, time.Minute)
		want("with one back", first)
		d.Want("release", d.Release("a"), script.Done)
		if sc := d.Look(); sc.HolderID() != "d" {
			d.Errorf("%q holds the lock", sc.HolderID())
		}
		want("while that one holds", first)
		d.Want("release", d.ReleasePlace("d", second), script.Done)
		want("after its release", first)
		if found := all(d); len(found) != 1 || found[0].Key != d.Key || len(found[0].Kept) != 1 || found[0].Kept[0].Name != first {
			d.Errorf("a scan finds %+v", found)
		}
	})
}

func TestForeignKeysAreNotListedAsKeptPlaces(t *testing.T) {
	scripttest.OnEach(t, func(d *scripttest.Driver) {
		d.Lock("a")
		for name, value := range map[string]string{"word": "x", "sign": "-5", "huge": "99999999999999999999", "none": ""} {
			d.Redis.Set(d.Context(), d.Keys.Kept(name), value, time.Minute)
		}
		d.Redis.RPush(d.Context(), d.Keys.Kept("list"), 5)
		if got := kept(d); len(got) != 0 {
			d.Errorf("places are kept for %q", got)
		}
		s, err := newInspector(d).Get(d.Context(), d.Key, "list", "gone")
		if err != nil || len(s.Holders) != 1 {
			d.Errorf("the lock is %+v, %v", s, err)
		}
	})
}

// A holder's process reports the start of the first wait only if it has lasted for some time.
func TestAnInspectorShowsTheLongestWaitInTheHoldersProcess(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Lock("a")
		for number, waited := range []time.Duration{0, time.Hour, 0} {
			tell := &script.ReportWaiters{Keys: d.Keys, ID: scripttest.ID("a"), Calls: 3, Waited: waited, Number: number + 1}
			for range 2 { // as after a lost answer
				if told, err := script.EndedAnswer(d.Send(tell)); err != nil || told != script.Done {
					d.Fatal(told, err)
				}
			}
			w := status(d).Waiters
			if len(w) != 1 || w[0].Calls != 3 {
				d.Fatalf("it has %+v", w)
			}
			if since := w[0].Since; waited == 0 && !since.IsZero() || waited > 0 && (time.Since(since)-waited).Abs() > time.Minute {
				d.Errorf("after %v they are seen to wait since %v", waited, since)
			}
		}
	})
}
