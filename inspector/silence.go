package inspector

import (
	"maps"
	"time"

	"github.com/lockmw/go/lockmw"
)

// Redis does not know whether a process is alive. But a live process renews its leases every third of them, and polls for its
// tickets. A watch compares readings of what a process holds and waits for. The process counts as silent once one of its leases has
// run out under the eyes of the watch, unrenewed and unreleased, and nothing was a sign of life since the watch began: no renewal, no
// new hold, no release, no poll.

// A watch is what the readings of a process so far say. It does not change.
type watch struct {
	since   time.Time // nothing was a sign of life since then
	read    time.Time // the last reading
	ranOut  bool      // a lease has run out since
	newest  time.Time // when the newest of its holds began, by the server's clock
	leases  map[holdID]lease
	tickets map[string]time.Time // when they were last seen, by the server's clock
}

// A holdID tells the holds of a process apart.
type holdID struct {
	key, owner string
	token      int64
}

// A lease is what was seen of one.
type lease struct {
	ends    time.Time     // by the clock here
	longest time.Duration // that was ever left of it: it is no longer than that in full
	left    time.Duration // at the last reading
	renewed bool          // the process renews it: it is not fixed, and not of a hold that was unlocked
}

const (
	// renewals is into how many parts renewals divide a lease. A live process leaves more than the last of them.
	renewals = 3
	// inexact is how much earlier than expected a lease may be gone.
	inexact = 100 * time.Millisecond
	// late is by how much the end of a lease may seem to move because an answer is late, and of a short lease less: a renewal moves it
	// by a third.
	late = 2 * time.Second
)

// see returns the watch after a reading of what the process of that name holds and waits for; of very much that is not all, and newest
// is when the newest of all its holds began. The watch may be nil.
func (w *watch) see(process string, statuses []lockmw.Status, newest, at time.Time) *watch {
	next := &watch{since: at, read: at, newest: newest, leases: make(map[holdID]lease), tickets: make(map[string]time.Time)}
	alive := w == nil
	if w == nil {
		w = new(watch)
	}
	if w.newest.After(next.newest) {
		next.newest = w.newest
	}
	for i := range statuses {
		s := &statuses[i]
		for j := range s.Holders {
			h := &s.Holders[j]
			if h.Process != process {
				continue
			}
			id := holdID{s.Key, h.Owner, h.Token}
			old, known := w.leases[id]
			l := lease{at.Add(h.TTL), max(old.longest, h.TTL), h.TTL, !h.Fixed && !h.Lingers}
			if h.Since.After(next.newest) {
				next.newest = h.Since
			}
			alive = alive || known && old.renewed != l.renewed || known && l.ends.Sub(old.ends) > min(l.longest/(2*renewals), late)
			next.leases[id] = l
		}
		for j := range s.Waiters {
			if t := &s.Waiters[j]; t.Process == process && t.Ticket != "" {
				seen, known := w.tickets[t.Ticket]
				alive = alive || !known || t.Seen.After(seen)
				next.tickets[t.Ticket] = t.Seen
			}
		}
	}
	alive = alive || next.newest.After(w.newest)
	ranOut := w.ranOut
	for id, l := range w.leases {
		_, there := next.leases[id]
		switch ended := !at.Before(l.ends.Add(-inexact)); {
		case there:
		case !ended: // it was released
			alive = true
		case l.renewed && l.left <= l.longest/renewals && at.Sub(w.read) <= max(l.longest/renewals, 2*time.Second):
			ranOut = true
		case l.renewed && !w.ranOut: // it may have been renewed and released between two readings
			alive = true
		}
	}
	if !alive {
		next.since, next.ranOut = w.since, ranOut
	}
	return next
}

// waitsFor is how long it takes at most until a lease has run out, if none is renewed; false if the process has none that it renews.
func (w *watch) waitsFor(now time.Time) (time.Duration, bool) {
	first, found := time.Duration(0), false
	for l := range maps.Values(w.leases) {
		if left := max(l.ends.Sub(now), 0); l.renewed && (!found || left < first) {
			first, found = left, true
		}
	}
	return first, found
}
