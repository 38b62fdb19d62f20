package inspector

import (
	"context"
	"time"

	"github.com/lockmw/go/lockevents"
)

// recentEvents is how many recorded events of a key a page has.
const recentEvents = 20

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
}

// readEvents reads what package lockevents has recorded of a key. A page without it says nothing of that: most programs record
// nothing, and the user of the page may lack the right.
func (h *hub) readEvents(ctx context.Context, key string) ([]lockevents.Event, error) {
	history, err := lockevents.NewHistory(h.insp.Redis(), lockevents.WithPrefix(h.insp.Prefix()))
	if err != nil {
		return nil, err
	}
	return history.Recent(ctx, key, recentEvents)
}

// happenings are events as pages show them, the latest first. Errors may repeat keys, so that they are not shown where keys are
// redacted.
func (v *view) happenings(events []lockevents.Event) []happening {
	all := make([]happening, len(events))
	for i := range events {
		e := &events[i]
		h := happening{
			At: e.At.UTC(), Event: string(e.Kind), Process: e.Process, Label: e.Label, Token: e.Token, Waited: millisOf(e.Waited), Held: millisOf(e.Held),
			Outcome: e.Outcome,
		}
		if v.redactKey == nil {
			h.Error = e.Err
		}
		all[len(all)-1-i] = h
	}
	return all
}
