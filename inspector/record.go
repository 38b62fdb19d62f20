package inspector

import (
	"cmp"
	"context"
	"net/http"

	"github.com/lockmw/go/lockevents"
)

// record notes in the history which holds an operator has released by force. It returns why they are not in the
// history: that does not change what was done.
func (h *handler) record(r *http.Request, v *view, taken ...lockevents.Taken) error {
	// The programs that record events say how long the stream is.
	events := lockevents.New(h.hub.insp, lockevents.WithLength(lockevents.MaxLength))
	// The browser may have left meanwhile.
	err := events.ForceUnlocked(context.WithoutCancel(r.Context()), cmp.Or(h.operator(r), "page"), taken...)
	if err != nil {
		h.logger.Warn("lockmw: inspector: forced releases are not in the history", "error", v.problemOf(err).Message)
	}
	return err
}
