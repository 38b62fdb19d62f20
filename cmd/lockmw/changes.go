package main

import (
	"slices"
	"time"
)

// slack is the apparent movement of a lease's end that may come from slow answers alone.
const slack = 50 * time.Millisecond

// since returns the events between the look before and l; before is nil for the first look.
func (l *look) since(before *look) (events []event) {
	add := func(e event) {
		e.Time, e.Waiting = l.at.UTC(), l.record.Waiting
		events = append(events, e)
	}
	if before == nil {
		for i := range l.record.Holders {
			add(event{Event: eventHeld, Holder: &l.record.Holders[i]})
		}
		if len(l.record.Holders) == 0 {
			add(event{Event: eventFree})
		}
		for i := range l.record.Waiters {
			add(event{Event: eventQueued, Waiter: &l.record.Waiters[i], Waited: l.record.Waiters[i].Waiting})
		}
		return events
	}
	was, is := &before.record, &l.record
	ended, began := missing(was.Holders, is.Holders, holderID), missing(is.Holders, was.Holders, holderID)
	gone := missing(was.Waiters, is.Waiters, ticketOf)
	for _, h := range ended {
		until := l.at
		if len(began) == 1 && began[0].Since.Before(until) {
			until = began[0].Since // it ended no later than the next hold began
		}
		add(event{Event: endOf(h, before.at, until), Holder: lasting(h, until)})
	}
	for _, h := range began {
		e := event{Event: eventGranted, Holder: h}
		// The server does not link a hold and its former ticket, so process and label must match.
		i := slices.IndexFunc(gone, func(w *waiterRecord) bool { return w.Process == h.Process && w.Label == h.Label })
		if i >= 0 {
			if since := gone[i].Since; since != nil {
				waited := seconds(max(h.Since.Sub(*since), 0))
				e.Waited = &waited
			}
			if len(ended) == 1 && len(began) == 1 {
				e.Event, e.From = eventHandedOver, ended[0]
			}
			gone = slices.Delete(gone, i, i+1)
		}
		add(e)
	}
	for _, w := range gone {
		add(event{Event: eventLeft, Waiter: w, Waited: w.Waiting})
	}
	for _, w := range missing(is.Waiters, was.Waiters, ticketOf) {
		add(event{Event: eventQueued, Waiter: w})
	}
	earlier := byID(was.Holders, holderID)
	for i := range is.Holders {
		h := &is.Holders[i]
		switch b := earlier[h.ID]; {
		case b == nil:
		case h.Lingers && !b.Lingers:
			add(event{Event: eventUnlocked, Holder: h})
		case endsAt(h, l.at).Sub(endsAt(b, before.at)) > slack && !h.Lingers:
			add(event{Event: eventRenewed, Holder: h})
		}
	}
	return events
}

func holderID(h *holderRecord) string { return h.ID }

func ticketOf(w *waiterRecord) string { return w.Ticket }

// byID returns the records by their ids.
func byID[R any](records []R, id func(*R) string) map[string]*R {
	all := make(map[string]*R, len(records))
	for i := range records {
		all[id(&records[i])] = &records[i]
	}
	return all
}

// missing returns the records with an id that none of the others has.
func missing[R any](records, others []R, id func(*R) string) (all []*R) {
	known := byID(others, id)
	for i := range records {
		if r := &records[i]; id(r) != "" && known[id(r)] == nil {
			all = append(all, r)
		}
	}
	return all
}

func endsAt(h *holderRecord, at time.Time) time.Time {
	return at.Add(time.Duration(h.TTL * float64(time.Second)))
}

// endOf returns the event for a hold that ended between two looks: expired if its lease may have ended by then.
func endOf(h *holderRecord, before, now time.Time) string {
	if endsAt(h, before).After(now.Add(slack)) {
		return eventReleased
	}
	return eventExpired
}

// lasting returns a copy of a hold that lasted until then.
func lasting(h *holderRecord, until time.Time) *holderRecord {
	last := *h
	last.Held, last.TTL = seconds(max(until.Sub(h.Since), 0)), 0
	return &last
}
