package inproc

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A hold that nobody can release any more is looked for only where it is in the way: when a call for its key does not get
// the lock at once, and in pauses while the call waits. As on Redis it lasts for its lease from then on, because the work
// that it was taken for may still be running.

// longestPause is after how long a call that waits looks for the last time. The first pause is core.StallAfter, and
// each is twice as long as the one before. They have an end so that a bubble of testing/synctest still finds that all of
// its goroutines wait for one another.
const longestPause = 24 * time.Hour

// findForgotten returns the holds of e that are seen to be forgotten now; l.mu is held. Young holds are not looked at,
// because that would cost something where a lock is only busy. A minimum hold is waited for.
func (e *entry) findForgotten() (found []*hold) {
	for _, h := range e.holds {
		if h.Req.Fixed || clock.Since(h.Since) < core.StallAfter || !h.BecomesForgotten() {
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

// reportForgotten tells the callers of holds that were found.
func (l *Locks) reportForgotten(found []*hold) {
	for _, h := range found {
		h.Req.Events.Forgotten(h.Local(), h.Deadline().Time())
	}
}

// lookForForgotten looks now and then until stop.
func (w *waiter) lookForForgotten() *pauses {
	return startPauses(core.StallAfter, func() {
		w.Lock()
		found := w.entry.findForgotten()
		w.Unlock()
		w.locks.reportForgotten(found)
	})
}
