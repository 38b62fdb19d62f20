package engine

import (
	"cmp"
	"slices"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
)

// findForgotten looks for holds that nobody can release any more. They end with the lease as it is now, even if it is
// renewed for others that share it. A minimum hold is waited for. It returns a function that tells the callers, which
// is called with no mutex held; nil if there is nothing to tell.
func (l *lease) findForgotten() (report func()) {
	var found []*hold
	for h := range l.holds.All() {
		if h.BecomesForgotten() {
			h.limitTo(l.expiry())
			found = append(found, h)
		}
	}
	if found == nil {
		return nil
	}
	l.sortHolds()
	return func() {
		for _, h := range found {
			h.Req.Events.Forgotten(h.Local(), h.Deadline().Time())
		}
	}
}

// sortHolds puts the hold that ends first to the front.
func (l *lease) sortHolds() {
	end := func(h *hold) clock.Instant {
		if limit := clock.Instant(h.limit.Load()); limit != 0 {
			return limit
		}
		return timers.Never
	}
	for _, h := range slices.SortedStableFunc(l.holds.All(), func(a, b *hold) int { return cmp.Compare(end(a), end(b)) }) {
		l.holds.Remove(h)
		l.holds.Push(h)
	}
}

// isWanted reports whether the lease is to be renewed: for a hold that was not forgotten, or for a caller that waits.
func (l *lease) isWanted() bool {
	for h := range l.holds.All() {
		if !h.Forgotten {
			return true
		}
	}
	return l.holds.IsEmpty() || l.checking
}
