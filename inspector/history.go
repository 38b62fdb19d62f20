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
	// recentEvents is the number of recorded events on the page of a key.
	recentEvents = 20
	// lastEvents is about the number of events of all keys that are read: some 3 MB on the wire the first time.
	lastEvents = 20_000
)

// A past has the last recorded events of all keys. It is immutable.
type past struct {
	events []lockevents.Event // sorted by time
	lastID string             // of the newest entry that was read
	byKey  map[string][]lockevents.Event
	since  time.Time // time of the first of events, if older ones exist; otherwise zero
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
	Holder  string    `json:"holder_process,omitempty"` // of a forced release: the process whose hold it ended
	By      string    `json:"by,omitempty"`             // of a forced release: the operator
}

// Whose returns the process whose attempt or hold the event is about.
func (h happening) Whose() string { return cmp.Or(h.Holder, h.Process) }

// readEvents reads the events that package lockevents has recorded since the last call. If there are none, pages omit the history: most
// programs do not record events, and the Redis user of the page may lack the right. Like a scan, it pauses between pages.
func (h *hub) readEvents(ctx context.Context, before past, alive func()) (past, error) {
	history := lockevents.NewHistory(h.insp)
	now := past{lastID: before.lastID, since: before.since}
	whole := true
	began := time.Now()
	rest := func() bool { return pause.For(ctx, time.Duration(float64(time.Since(began))*(1/scanShare-1))) }
	for page, err := range history.Back(ctx, before.lastID) {
		if err != nil {
			return past{}, err
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
			return past{}, ctx.Err()
		}
		alive()
		began = time.Now()
	}
	if len(now.events) == 0 && !rest() { // the stream had no new page
		return past{}, ctx.Err()
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

// index sorts the events, drops the oldest beyond lastEvents, and groups them by key.
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

// of returns the last events of a key, and the time since which they are complete; zero if they are complete.
func (p past) of(key string) (events []lockevents.Event, since time.Time) {
	events = p.byKey[key]
	return events[max(len(events)-recentEvents, 0):], p.since
}

// happenings converts events for pages, the latest first. With redacted keys it omits errors, because they may contain keys.
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
