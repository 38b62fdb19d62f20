package inspector

import (
	"time"

	"github.com/lockmw/go/lockmw"
)

// Redis cannot show whether a process is alive. But a live process renews each lease after a third of its time, and polls for its
// tickets. A watch compares successive readings of the holds and waits of a process. The process counts as silent if the
// watch has seen one of its leases expire, neither renewed nor released, and no sign of life since it began: no renewal, new hold,
// release or poll.

// A watch summarizes the readings of a process so far. It is immutable.
type watch struct {
	since   time.Time // no sign of life since then
	read    time.Time // time of the last reading
	ranOut  bool      // a lease has expired since
	newest  time.Time // start of its newest hold, by the server's clock
	leases  map[holdID]lease
	tickets map[string]time.Time // when the server last saw a poll for them, by its clock
}

// A holdID identifies a hold of a process.
type holdID struct {
	key, owner string
	token      int64
}

// A lease is the observed state of a lease.
type lease struct {
	ends    time.Time     // by the clock of this machine
	longest time.Duration // the most time that was ever left: an upper bound for the full lease
	left    time.Duration // at the last reading
	renewed bool          // the process should renew it: it is not fixed, and its hold is not unlocked
}

const (
	// renewals is the number of parts into which renewals divide a lease. A live process never uses the last part.
	renewals = 3
	// inexact is how much earlier than expected a lease may disappear.
	inexact = 100 * time.Millisecond
	// late is the apparent movement of a lease's end that may come from a late answer. For a short lease the limit is lower, because a
	// renewal moves the end by only a third of the lease.
	late = 2 * time.Second
)

// see returns the watch after a reading of the holds and waits of a process. A reading may omit some of very many; newest is the start
// of the newest of all its holds. The watch may be nil.
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
		case !ended: // released
			alive = true
		case l.renewed && l.left <= l.longest/renewals && at.Sub(w.read) <= max(l.longest/renewals, 2*time.Second):
			ranOut = true
		case l.renewed && !w.ranOut: // possibly renewed and released between two readings
			alive = true
		}
	}
	if !alive {
		next.since, next.ranOut = w.since, ranOut
	}
	return next
}

// waitsFor returns the time until the first lease expires, if none is renewed. It reports false if the process renews no lease.
func (w *watch) waitsFor(now time.Time) (time.Duration, bool) {
	first, found := time.Duration(0), false
	for _, l := range w.leases {
		if left := max(l.ends.Sub(now), 0); l.renewed && (!found || left < first) {
			first, found = left, true
		}
	}
	return first, found
}
