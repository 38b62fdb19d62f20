package inproc

import (
	"time"

	"github.com/lockmw/go/internal/core"
)

// A ticket is a place in the queue to which a call with the same id can come back.
type ticket struct {
	place int64
	until time.Time   // zero while a call waits there
	timer *time.Timer // forgets it then
}

func (t *ticket) isOver() bool { return !t.until.IsZero() && !time.Now().Before(t.until) }

// placeOf returns the place that r's ticket has kept, else one at the end of the queue.
func (e *entry) placeOf(r *core.Request) int64 {
	if t := e.tickets[r.Ticket]; t != nil && !t.isOver() {
		return t.place
	}
	e.last++
	return e.last
}

// use notes that a call waits in the place of a ticket, which does not end as long as it does.
func (e *entry) use(id string, place int64) *ticket {
	t := e.tickets[id]
	if t == nil {
		if e.tickets == nil {
			e.tickets = make(map[string]*ticket)
		}
		t = &ticket{}
		e.tickets[id] = t
	}
	t.place, t.until = place, time.Time{}
	return t
}

// keep keeps the place of r, whose call is over, for as long as r wants.
func (l *Locks) keep(e *entry, r *core.Request, place int64) {
	if r.Ticket == "" {
		return
	}
	t := e.use(r.Ticket, place)
	t.until = time.Now().Add(r.Keep)
	if t.timer == nil {
		t.timer = time.AfterFunc(r.Keep, func() { l.forget(e, r.Ticket, t) })
	} else {
		t.timer.Reset(r.Keep)
	}
}

// forget gives a ticket up when its time has come; it may have been used or kept anew meanwhile.
func (l *Locks) forget(e *entry, id string, t *ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.tickets[id] == t && t.isOver() {
		delete(e.tickets, id)
		l.settle(e)
	}
}

// giveUpTicket ends the place that a hold came of.
func (e *entry) giveUpTicket(id string) {
	t := e.tickets[id]
	if t == nil {
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	delete(e.tickets, id)
}
