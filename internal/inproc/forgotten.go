package inproc

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// The process checks for a hold that can no longer be released only where it is in the way: when a call for its key does not get
// the lock immediately, and repeatedly while that call waits. As on Redis, such a hold then lasts for its lease, because the work
// for which it was taken may still be running.

// longestPause is the longest pause between two checks of a waiting call. The first pause is core.SelfWaitAfter, and they double.
// They end so that a bubble of testing/synctest can detect that all its goroutines wait for one another.
const longestPause = 24 * time.Hour

// findForgotten returns the holds of e that have just been found to be forgotten; l.mu is held. It skips young holds, because
// checking them would cost time where a lock is merely busy, and holds with an unfinished minimum hold.
func (e *entry) findForgotten() (found []*hold) {
	for _, h := range e.holds {
		if h.Req.Fixed || clock.Since(h.Since) < core.SelfWaitAfter || !h.BecomesForgotten() {
			continue
		}
		if ends := clock.Now().Add(h.lease); h.deadline.IsZero() || ends.Before(h.deadline) {
			h.deadline = ends
			h.startLimit()
		}
		found = append(found, h)
	}
	return found
}

// reportForgotten notifies the callers of these holds.
func (l *Locks) reportForgotten(found []*hold) {
	for _, h := range found {
		h.Req.Events.Forgotten(h.Local(), h.Deadline().Time())
	}
}

// checkForgotten checks for forgotten holds in pauses until stop is called.
func (w *waiter) checkForgotten() *pauses {
	return startPauses(core.SelfWaitAfter, func() {
		w.Lock()
		found := w.entry.findForgotten()
		w.Unlock()
		w.locks.reportForgotten(found)
	})
}
