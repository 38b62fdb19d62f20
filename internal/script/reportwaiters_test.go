package script_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// wantWaiting checks how many calls an operator sees behind the holder, and how many calls share each ticket.
func wantWaiting(d *scripttest.Driver, when string, behind int, tickets ...int) {
	d.Helper()
	i, err := inspect.New(d.Redis, inspect.Config{Prefix: "lockmw"})
	if err != nil {
		d.Fatal(err)
	}
	s, err := i.Get(d.Context(), d.Key)
	if err != nil {
		d.Fatal(err)
	}
	waiters := s.Waiters
	if behind > 0 {
		if len(waiters) == 0 || waiters[0].Ticket != "" || waiters[0].Calls != behind || waiters[0].Process != s.Holders[0].Process {
			d.Errorf("%s, %+v wait, want %d behind the holder", when, waiters, behind)
			return
		}
		waiters = waiters[1:]
	}
	if len(waiters) != len(tickets) {
		d.Errorf("%s, %+v wait, want %d tickets", when, waiters, len(tickets))
		return
	}
	for j, w := range waiters {
		if w.Ticket == "" || w.Calls != tickets[j] {
			d.Errorf("%s, ticket %d of %d is %+v, want %d calls", when, j+1, len(tickets), w, tickets[j])
		}
	}
}

func TestHowManyCallsWaitBehindAHoldIsAsTheLastRunSaid(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Lock("a")
		wantWaiting(d, "at first", 0)
		for range 2 { // a run may come twice
			d.Want("the first run", d.Tell("a", 10, 1), script.Done)
			wantWaiting(d, "after the first run", 10)
		}
		d.Want("the third run", d.Tell("a", 0, 3), script.Done)
		for number := range 4 {
			d.Want("a run that is late", d.Tell("a", 7, number), script.Done)
			wantWaiting(d, "after a run that was late", 0)
		}
		d.Want("the fourth run", d.Tell("a", 12, 4), script.Done)
		d.Renew("a", time.Hour)
		wantWaiting(d, "after a renewal", 12)
		d.Want("another's run", d.Tell("b", 5, 9), script.NotHeld)
		wantWaiting(d, "after another's run", 12)
		ttl := d.Look().Holder.TTL
		d.Want("the fifth run", d.Tell("a", 1, 5), script.Done)
		if got := d.Look().Holder.TTL; got > ttl || got < ttl-time.Minute {
			d.Errorf("the lease lasts for %v, it did for %v", got, ttl)
		}
	})
}

func TestHowManyCallsWaitBehindAHoldEndsWithIt(t *testing.T) {
	ends := map[string]func(d *scripttest.Driver){
		"release":   func(d *scripttest.Driver) { d.Release("a") },
		"linger":    func(d *scripttest.Driver) { d.Linger("a", time.Minute) },
		"cancel":    func(d *scripttest.Driver) { d.Cancel("a") },
		"hand-over": func(d *scripttest.Driver) { d.HandOver("a", "b") },
		"force":     func(d *scripttest.Driver) { d.Force(d.Token(), "owner-a") },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
				d.Lock("a")
				d.Tell("a", 10, 1)
				end(d)
				wantWaiting(d, "after its end", 0)
				if got, ok := d.Look().Holder.Fields["waiters"]; ok {
					d.Errorf("the number is still there: %q", got)
				}
				d.Want("a run that is late", d.Tell("a", 9, 2), script.NotHeld)
				wantWaiting(d, "after that run", 0)
			})
		})
	}
}

func TestOnlyAHoldThatExcludesOthersHasCallsBehindIt(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Want("of a free lock", d.Tell("a", 5, 1), script.NotHeld)
		d.Read("a")
		d.Want("of a reader", d.Tell("a", 5, 1), script.NotHeld)
	})
}

func TestATicketSaysForHowManyCallsItStands(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Lock("a")
		d.Lock("b")
		for range 2 { // a run may come twice
			d.Acquire(scripttest.Acquire{ID: "c", Tokens: 9, Calls: 9})
		}
		wantWaiting(d, "at first", 0, 1, 9)
		d.Want("poll", d.PollCalls("b", 4), script.Queued)
		d.Want("poll", d.PollCalls("c", 1), script.Queued)
		wantWaiting(d, "after a poll", 0, 4, 1)
		d.Want("release", d.Release("a"), script.Done)
		wantWaiting(d, "after the grant", 3, 1)
		d.Want("its first run", d.Tell("b", 2, 1), script.Done)
		wantWaiting(d, "after its first run", 2, 1)
		d.Want("release", d.Release("b"), script.Done)
		wantWaiting(d, "after the next grant", 0)

		d.Acquire(scripttest.Acquire{ID: "d", Mode: core.Read, Calls: 20})
		wantWaiting(d, "with readers", 0, 20)
		d.Want("poll", d.PollCalls("d", 21), script.Queued)
		wantWaiting(d, "with one more", 0, 21)
		d.Want("release", d.Release("c"), script.Done)
		d.WantReaders("d")
		wantWaiting(d, "while they read", 0)
	})
}

func TestALockThatIsFreeIsTakenForSeveralCalls(t *testing.T) {
	scripttest.OnEachTidy(t, func(d *scripttest.Driver) {
		d.Acquire(scripttest.Acquire{ID: "a", Tokens: 5, Calls: 5})
		wantWaiting(d, "at first", 4)
		d.Acquire(scripttest.Acquire{ID: "b", Predecessor: "a", Tokens: 7, Calls: 7})
		wantWaiting(d, "after a hand-over", 6)
		d.Lock("c")
		d.Acquire(scripttest.Acquire{ID: "d", Predecessor: "b", Tokens: 8, Calls: 8})
		wantWaiting(d, "after a hand-over to another process", 0, 8)
	})
}
