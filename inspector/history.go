package inspector

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockevents"
)

const (
	// recentEvents is how many recorded events of a key a page has.
	recentEvents = 20
	// lastEvents is how many events of all keys are looked through, about: some 3 MB on the wire the first time.
	lastEvents = 20_000
)

// A past is what was recorded last of all keys. It does not change.
type past struct {
	events []lockevents.Event // in the order of their times
	lastID string             // of the entry that was read last
	byKey  map[string][]lockevents.Event
	since  time.Time // when the first of events happened, if there were more; zero: there were not
}

// A happening is a recorded event of a key.
type happening struct {
	At      time.Time `json:"at"` // by the clock of its process
	Event   string    `json:"event"`
	Process string    `json:"process"`
	Label   string    `json:"label"`
	Token   int64     `json:"token,omitempty"`
	Waited  millis    `json:"waited_ms,omitempty"`
	Held    millis    `json:"held_ms,omitempty"`
	Outcome string    `json:"outcome,omitempty"`
	Error   string    `json:"error,omitempty"`
	Holder  string    `json:"holder_process,omitempty"` // of a forced release: whose hold it ended
	By      string    `json:"by,omitempty"`             // of a forced release: the operator
}

// Whose is the process whose attempt or hold the event is about.
func (h happening) Whose() string { return cmp.Or(h.Holder, h.Process) }

// readEvents reads what package lockevents has recorded since it last looked. A page without it says nothing of that: most programs
// record nothing, and the user of the page may lack the right. Like a scan, it pauses between pages.
func (h *hub) readEvents(ctx context.Context, alive func(), _ func(*past)) (*past, error) {
	history := lockevents.NewHistory(h.insp)
	before := h.events.now().value
	if before == nil {
		before = new(past)
	}
	now := &past{lastID: before.lastID, since: before.since}
	whole := true
	began := time.Now()
	rest := func() bool { return pause.For(ctx, time.Duration(float64(time.Since(began))*(1/scanShare-1))) }
	for page, err := range history.Back(ctx, before.lastID) {
		if err != nil {
			return nil, err
		}
		if len(now.events) == 0 {
			now.lastID = page.LastID
		}
		now.events = append(now.events, page.Events...)
		if len(now.events) >= lastEvents {
			whole = false
			break
		}
		if !rest() {
			return nil, ctx.Err()
		}
		alive()
		began = time.Now()
	}
	if len(now.events) == 0 && !rest() { // there was no page
		return nil, ctx.Err()
	}
	h.trend.count(now.events)
	switch {
	case len(now.events) == 0:
		return before, nil
	case whole:
		now.events = append(now.events, before.events...)
	}
	now.index(!whole)
	return now, nil
}

// index sorts the events, and leaves out those that are too many.
func (p *past) index(more bool) {
	lockevents.SortByTime(p.events)
	if n := len(p.events) - lastEvents; n > 0 {
		more = true
		p.events = slices.Clone(p.events[n:])
	}
	if more {
		p.since = p.events[0].At
	}
	p.byKey = make(map[string][]lockevents.Event)
	for _, e := range p.events {
		p.byKey[e.Key] = append(p.byKey[e.Key], e)
	}
}

// of returns the last events of a key, and since when all of them are known; zero if they always were.
func (p *past) of(key string) (events []lockevents.Event, since time.Time) {
	if p == nil {
		return nil, time.Time{}
	}
	events = p.byKey[key]
	return events[max(len(events)-recentEvents, 0):], p.since
}

// happenings are events as pages show them, the latest first. Errors may repeat keys, so that they are not shown where keys are
// redacted.
func (v *view) happenings(events []lockevents.Event) []happening {
	all := make([]happening, len(events))
	for i := range events {
		e := &events[i]
		h := happening{
			At: e.At.UTC(), Event: string(e.Kind), Process: e.Process, Label: e.Label, Token: e.Token, Waited: millisOf(e.Waited), Held: millisOf(e.Held),
			Outcome: e.Outcome, By: e.By,
		}
		if e.Kind == lockevents.Forced {
			h.Holder = e.Behind.Process
		}
		if v.redactKey == nil {
			h.Error = e.Err
		}
		all[len(all)-1-i] = h
	}
	return all
}
