package main

import (
	"bufio"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A watcher is one run of `lockmw watch --json`.
type watcher struct {
	t      *testing.T
	lines  *bufio.Scanner
	status <-chan int
}

func watch(t *testing.T, s *redistest.Server, args ...string) *watcher {
	t.Helper()
	out, ended := start(t, t.Context(), append([]string{"watch", "--json", "--interval", "10ms", "--redis", s.Addr()}, args...)...)
	t.Cleanup(func() {
		_ = out.Close() // ends the command
		for range ended {
		}
	})
	return &watcher{t, bufio.NewScanner(out), ended}
}

// sees waits for the next event, and checks that it is one of these.
func (w *watcher) sees(names ...string) event {
	w.t.Helper()
	for w.lines.Scan() {
		var e event
		if err := json.Unmarshal(w.lines.Bytes(), &e); err != nil {
			w.t.Fatalf("%s: %v", w.lines.Text(), err)
		}
		if e.Event == eventRenewed {
			continue // renewals depend on the clock
		}
		if !slices.Contains(names, e.Event) {
			w.t.Fatalf("watch prints %s, want %s: %s", e.Event, names, w.lines.Text())
		}
		return e
	}
	w.t.Fatalf("watch ends before %s", names)
	return event{}
}

func TestTheLifeOfALockIsWatched(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		w := watch(t, s, "user:42", "--until-free")
		first, second := newClient(t, s), newClient(t, s)
		w2 := watch(t, s, "user:43")
		w2.sees(eventFree)
		_, hold := take(t, first, "user:43", lockmw.WithLabel("req-7"))
		if e := w2.sees(eventGranted); e.Holder == nil || e.Holder.Label != "req-7" || e.Key != "user:43" {
			t.Errorf("granted: %+v", e)
		}
		taken := make(chan *lockmw.Hold)
		go func() {
			_, h, err := second.Lock(t.Context(), "user:43", lockmw.WithLabel("req-8"))
			if err != nil {
				t.Error(err)
			}
			taken <- h
		}()
		if e := w2.sees(eventQueued); e.Waiter == nil || e.Waiter.Label != "req-8" || e.Waiting != 1 {
			t.Errorf("queued: %+v", e)
		}
		usertest.Unlock(t, hold)
		next := <-taken
		w2.sees(eventReleased)
		if e := w2.sees(eventHandedOver); e.Holder == nil || e.Holder.Label != "req-8" || e.From == nil || e.From.Label != "req-7" || e.Waited == nil {
			t.Errorf("handed over: %+v", e)
		}
		usertest.Unlock(t, next)
		w2.sees(eventReleased, eventExpired) // until its first renewal the lease is short
		w.sees(eventFree)
		if status := <-w.status; status != statusDone {
			t.Errorf("it ends with %d", status)
		}
	})
}

func TestAWatchOutlastsAnUnreachableServer(t *testing.T) {
	s := redistest.Redis(t)
	w := watch(t, s, "user:42")
	w.sees(eventFree)
	s.Kill()
	if e := w.sees(eventUnreachable); e.Error == "" {
		t.Errorf("unreachable: %+v", e)
	}
	s.Restart(t)
	w.sees(eventBack)
	take(t, newClient(t, s), "user:42")
	w.sees(eventGranted)
}

// `lockmw watch KEY --until-free --for 5m && deploy` must not deploy while somebody holds the lock.
func TestWatchUntilFreeSucceedsOnlyIfTheLockIsFree(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	take(t, newClient(t, s), "user:42")
	lockmwOn(t, s, "watch", "user:42", "--until-free", "--for", "50ms").want(t, statusFailed, "user:42 was not seen free within 50ms")
	lockmwOn(t, s, "watch", "user:42", "--for", "50ms").want(t, statusDone)
	ctx, interrupt := limited(t)
	defer interrupt()
	call{args: []string{"watch", "user:42", "--until-free", "--redis", s.Addr()}}.run(ctx).want(t, 130)
	lockmwOn(t, s, "watch", "user:43", "--until-free", "--for", "1h").want(t, statusDone)
}

// at returns a look at a lock, this long after the first.
func at(after time.Duration, holders []holderRecord, tickets ...string) *look {
	l := &look{time.Unix(1000, 0).Add(after), lockRecord{Holders: holders}}
	for i, ticket := range tickets {
		since := time.Unix(999, 0)
		l.record.Waiters = append(l.record.Waiters, waiterRecord{Ticket: ticket, Process: ticket, Position: i + 1, Since: &since})
	}
	return l
}

// by returns a hold of a process whose lease ends in ttl seconds.
func by(process string, ttl float64) []holderRecord {
	return []holderRecord{{ID: process, Process: process, TTL: ttl, Since: time.Unix(1000, 0)}}
}

func TestEventsBetweenTwoLooks(t *testing.T) {
	const second = time.Second
	lingers := by("a", 29)
	lingers[0].Lingers = true
	for what, tt := range map[string]struct {
		before, now *look
		want        string
	}{
		"nothing, held":       {at(0, by("a", 30)), at(second, by("a", 29)), ""},
		"nothing, free":       {at(0, nil), at(second, nil), ""},
		"first, free":         {nil, at(0, nil), "free"},
		"first, held":         {nil, at(0, by("a", 30), "b"), "held queued"},
		"granted":             {at(0, nil), at(second, by("a", 30)), "granted"},
		"renewed":             {at(0, by("a", 20)), at(second, by("a", 30)), "renewed"},
		"renewed by little":   {at(0, by("a", 0.2)), at(second/10, by("a", 0.2)), "renewed"},
		"the answer was late": {at(0, by("a", 20)), at(second, by("a", 19.04)), ""},
		"released":            {at(0, by("a", 20)), at(second, nil), "released"},
		"expired":             {at(0, by("a", 0.9)), at(second, nil), "expired"},
		"unlocked":            {at(0, by("a", 30)), at(second, lingers), "unlocked"},
		"queued":              {at(0, by("a", 30), "b"), at(second, by("a", 29), "b", "c"), "queued"},
		"gave up":             {at(0, by("a", 30), "b", "c"), at(second, by("a", 29), "c"), "left"},
		"handed over":         {at(0, by("a", 30), "b", "c"), at(second, by("b", 3), "c"), "released handed_over"},
		"expired, handed on":  {at(0, by("a", 0.5), "b"), at(2*second, append(by("b", 3)[:0:0], holderRecord{ID: "b", Process: "b", TTL: 3, Since: time.Unix(1001, 0)})), "expired handed_over"},
		"overtaken":           {at(0, by("a", 30), "b"), at(second, by("c", 30), "b"), "released granted"},
		"readers":             {at(0, by("a", 30)), at(second, append(by("a", 29), by("b", 30)...)), "granted"},
	} {
		var got []string
		for _, e := range tt.now.since(tt.before) {
			got = append(got, e.Event)
			if text := strings.Join(e.parts(), "  "); text == "" {
				t.Errorf("%s: %s has no text", what, e.Event)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: it sees %q, want %q", what, got, tt.want)
		}
	}
}

func TestAHandOverHasTheTimeOfTheWait(t *testing.T) {
	events := at(time.Second, by("b", 3)).since(at(0, by("a", 30), "b"))
	i := slices.IndexFunc(events, func(e event) bool { return e.Event == eventHandedOver })
	if i < 0 || events[i].Waited == nil || *events[i].Waited != 1 || events[i].From.Process != "a" {
		t.Errorf("it is %+v", events)
	}
}

func TestHandOffsAreAveraged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heat{}
		h.note(0, time.Now())
		for range 400 { // two a second
			time.Sleep(250 * time.Millisecond)
			h.note(1, time.Now())
			time.Sleep(250 * time.Millisecond)
			h.note(0, time.Now())
		}
		if h.rate < 1.8 || h.rate > 2.2 {
			t.Errorf("at two hand-offs a second it says %v", h.rate)
		}
		time.Sleep(time.Minute)
		if h.note(0, time.Now()); h.rate > 0.01 {
			t.Errorf("after a minute of rest it says %v", h.rate)
		}
	})
}
