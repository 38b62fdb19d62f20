package inspector

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/lockmw"
)

// A life simulates the holds and actions of a process, second by second.
type life struct {
	at      time.Time
	leases  map[string]*lockmw.Holder // by key
	full    map[string]time.Duration
	renews  bool
	tickets []lockmw.Waiter
	watch   *watch
}

func newLife() *life {
	return &life{at: time.Unix(1_800_000_000, 0), leases: make(map[string]*lockmw.Holder), full: make(map[string]time.Duration), renews: true}
}

func (l *life) take(key string, lease time.Duration) *lockmw.Holder {
	h := &lockmw.Holder{Owner: key, Process: "web-1", Token: int64(len(l.full)), Since: l.at, TTL: lease}
	l.leases[key], l.full[key] = h, lease
	return h
}

// pass lets seconds pass, with a reading at the end of each.
func (l *life) pass(seconds int) *life {
	for range seconds {
		l.sleep(time.Second)
		l.look()
	}
	return l
}

func (l *life) sleep(d time.Duration) {
	l.at = l.at.Add(d)
	for key, h := range l.leases {
		if h.TTL -= d; l.renews && !h.Fixed && h.TTL <= l.full[key]*2/3 {
			h.TTL = l.full[key]
		}
		if h.TTL <= 0 {
			delete(l.leases, key)
		}
	}
}

func (l *life) look() {
	var statuses []lockmw.Status
	for key, h := range l.leases {
		statuses = append(statuses, lockmw.Status{Key: key, Holders: []lockmw.Holder{{Process: "web-2"}, *h}})
	}
	statuses = append(statuses, lockmw.Status{Key: "wanted", Waiters: l.tickets})
	l.watch = l.watch.see("web-1", statuses, time.Time{}, l.at)
}

func TestAProcessCountsAsSilentOnlyAfterAWholeLease(t *testing.T) {
	for name, test := range map[string]struct {
		live   func(*life)
		silent bool
	}{
		"it has died":                            {func(l *life) { l.pass(15); l.renews = false; l.pass(31) }, true},
		"it had died before":                     {func(l *life) { l.renews = false; l.sleep(20 * time.Second); l.pass(11) }, true},
		"its lease has not run out":              {func(l *life) { l.pass(15); l.renews = false; l.pass(20) }, false},
		"it is alive":                            {func(l *life) { l.pass(300) }, false},
		"it has released its lock":               {func(l *life) { l.pass(15); delete(l.leases, "short"); l.pass(60) }, false},
		"it hung, and released its lock late":    {func(l *life) { l.renews = false; l.pass(25); delete(l.leases, "short"); l.pass(60) }, false},
		"it hung, and renewed its lock late":     {func(l *life) { l.renews = false; l.pass(25); l.renews = true; l.pass(60) }, false},
		"nobody looked when its lease ran out":   {func(l *life) { l.pass(3); l.renews = false; l.sleep(40 * time.Second); l.pass(10) }, false},
		"it renews another lease":                {func(l *life) { l.renews = false; l.pass(40); l.leases["long"].TTL = l.full["long"]; l.pass(5) }, false},
		"it takes another lock":                  {func(l *life) { l.renews = false; l.pass(40); l.take("new", time.Minute); l.pass(5) }, false},
		"it releases a lock that is not renewed": {func(l *life) { l.renews = false; l.pass(40); delete(l.leases, "fixed"); l.pass(5) }, false},
		"it polls":                               {func(l *life) { l.renews = false; l.pass(40); l.tickets[0].Seen = l.at; l.pass(5) }, false},
		"it queues": {func(l *life) {
			l.renews = false
			l.pass(40)
			l.tickets = append(l.tickets, lockmw.Waiter{Process: "web-1", Ticket: "2", Seen: l.tickets[0].Seen})
			l.pass(5)
		}, false},
		"others take locks": {func(l *life) {
			l.renews = false
			l.tickets = append(l.tickets, lockmw.Waiter{Process: "web-2", Ticket: "2", Seen: l.at.Add(time.Hour)})
			l.pass(40)
		}, true},
		"nobody looks for a while afterwards":               {func(l *life) { l.renews = false; l.pass(40); l.sleep(time.Minute); l.pass(1) }, true},
		"it has unlocked, and a minimum hold keeps the key": {func(l *life) { l.renews = false; l.pass(25); l.leases["short"].Lingers = true; l.pass(10) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife()
			l.take("short", 30*time.Second)
			l.take("long", 10*time.Minute)
			l.take("fixed", time.Hour).Fixed = true
			l.tickets = []lockmw.Waiter{{Process: "web-1", Ticket: "1", Seen: l.at}}
			test.live(l)
			if l.watch.ranOut != test.silent {
				t.Errorf("it counts as silent: %v, since %v", l.watch.ranOut, l.at.Sub(l.watch.since))
			}
		})
	}
}

// Different leases expire one after another. A lease that enters the watch later is not a sign of life.
func TestManyLeasesRunOut(t *testing.T) {
	l := newLife()
	l.renews = false
	for i := range 20 {
		l.take(fmt.Sprint(i), time.Duration(5+i)*time.Second)
	}
	newest := l.at
	l.pass(12)
	if !l.watch.ranOut {
		t.Fatal("no lease has expired")
	}
	l.leases["late"] = &lockmw.Holder{Process: "web-1", Since: newest.Add(-time.Minute), TTL: time.Minute}
	if l.pass(10); !l.watch.ranOut {
		t.Error("a hold of long ago counts as a sign of life")
	}
}

func TestAWatchKeepsTheKeysThatItHasRead(t *testing.T) {
	hold := func(key string, ttl time.Duration) *entry {
		return &entry{Status: lockmw.Status{Key: key, Holders: []lockmw.Holder{{Process: "web-1", TTL: ttl, Since: time.Unix(int64(ttl), 0)}}}}
	}
	seen := &presence{entries: map[string]*entry{"seen": hold("seen", 2*time.Hour), "free": {Status: lockmw.Status{Key: "free"}}}}
	all := []*entry{hold("free", time.Second), {Status: lockmw.Status{Key: "wanted", Waiters: []lockmw.Waiter{{Process: "web-1"}}}}}
	for i := range mostWatched {
		all = append(all, hold(fmt.Sprint(i), time.Minute+time.Duration(i)))
	}
	keys, newest := seen.toRead("web-1", all)
	if len(keys) != mostWatched || keys[0] != "seen" || keys[1] != "0" || newest != time.Unix(int64(2*time.Hour), 0) {
		t.Errorf("%d keys %q, the newest of %v", len(keys), keys, newest)
	}
	if keys, _ := new(presence).toRead("web-1", all[:3]); len(keys) != 3 || keys[0] != "free" || keys[2] != "wanted" {
		t.Errorf("at first %q", keys)
	}
}
