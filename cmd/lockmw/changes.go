package main

import "time"

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
	var ended []*holderRecord
	for i := range before.record.Holders {
		if h := &before.record.Holders[i]; l.holders[h.ID] == nil {
			ended = append(ended, h)
		}
	}
	var began []*holderRecord
	for i := range l.record.Holders {
		if h := &l.record.Holders[i]; before.holders[h.ID] == nil {
			began = append(began, h)
		}
	}
	var gone []*waiterRecord // tickets
	for i := range before.record.Waiters {
		if w := &before.record.Waiters[i]; w.Ticket != "" && l.waiters[w.Ticket] == nil {
			gone = append(gone, w)
		}
	}
	for _, h := range ended {
		until := l.at
		if len(began) == 1 && began[0].Since.Before(until) {
			until = began[0].Since // it ended no later than the next hold began
		}
		add(event{Event: endOf(h, before.at, until), Holder: lasting(h, until)})
	}
	for _, h := range began {
		e := event{Event: eventGranted, Holder: h}
		var ticket *waiterRecord
		if ticket, gone = takeTicket(h, gone); ticket != nil && ticket.Since != nil {
			waited := seconds(max(h.Since.Sub(*ticket.Since), 0))
			e.Waited = &waited
		}
		if len(ended) == 1 && len(began) == 1 && ticket != nil {
			e.Event, e.From = eventHandedOver, ended[0]
		}
		add(e)
	}
	for _, w := range gone {
		add(event{Event: eventLeft, Waiter: w, Waited: w.Waiting})
	}
	for i := range l.record.Waiters {
		if w := &l.record.Waiters[i]; w.Ticket != "" && before.waiters[w.Ticket] == nil {
			add(event{Event: eventQueued, Waiter: w})
		}
	}
	for i := range l.record.Holders {
		h := &l.record.Holders[i]
		switch b := before.holders[h.ID]; {
		case b == nil:
		case h.Lingers && !b.Lingers:
			add(event{Event: eventUnlocked, Holder: h})
		case endsAt(h, l.at).Sub(endsAt(b, before.at)) > slack && !h.Lingers:
			add(event{Event: eventRenewed, Holder: h})
		}
	}
	return events
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

// takeTicket finds a holder's former ticket among the tickets that left the queue. The server does not link the two, so process
// and label must match.
func takeTicket(h *holderRecord, gone []*waiterRecord) (ticket *waiterRecord, left []*waiterRecord) {
	for _, w := range gone {
		if ticket == nil && w.Process == h.Process && w.Label == h.Label {
			ticket = w
		} else {
			left = append(left, w)
		}
	}
	return ticket, left
}
