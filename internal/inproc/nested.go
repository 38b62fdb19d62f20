package inproc

import (
	"context"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
)

// A nested wait is one whose context has other holds: it may be in a deadlock. One with locks on Redis, too, is found by
// the waits for those.
type nested struct {
	deadlock.Nested
	w      *waiter
	ticket string
	look   *time.Timer
	pause  time.Duration // before the next look
}

// beginNested registers a wait, if it is nested; else it returns nil.
func (l *Locks) beginNested(ctx context.Context, w *waiter) *nested {
	chain, ok := ctx.Value(core.ChainKey{}).(core.Chain)
	if !ok || w.req.Once || w.req.Leads {
		return nil
	}
	l.mu.Lock()
	n := &nested{w: w, ticket: w.id(), pause: w.req.Detect}
	l.mu.Unlock()
	n.Nested = deadlock.Nested{
		Waits: deadlock.Shared, Request: w.req, Began: w.since, Until: w.until(), Process: "local", Site: l, Call: n, Wake: func(time.Duration) {},
	}
	if !n.Begin(chain) {
		return nil
	}
	if n.pause > 0 {
		n.look = time.NewTimer(n.pause)
	}
	return n
}

// end ends the registration; n may be nil.
func (n *nested) end() {
	if n != nil {
		n.End()
	}
}

// news returns when to look, and the deadlock that was found; n may be nil.
func (n *nested) news() (looks <-chan time.Time, found <-chan *core.DeadlockError) {
	switch {
	case n == nil:
		return nil, nil
	case n.look == nil:
		return nil, n.Found
	}
	return n.look.C, n.Found
}

// due looks for a deadlock. The pauses between looks have an end, as those of lookForForgotten.
func (n *nested) due() {
	n.LookWithin()
	if n.pause = max(2*n.pause, deadlock.Every); n.pause <= longestPause {
		n.look.Reset(n.pause)
	}
}

// State implements deadlock.Call.
func (n *nested) State() (ticket string, waits bool) { return n.ticket, len(n.w.ready) == 0 }

// id is the waiter's ticket for detectors of deadlocks. locks.mu is held.
func (w *waiter) id() string {
	if w.ticket == "" {
		w.ticket = deadlock.Shared.NewID()
	}
	return w.ticket
}

// Standing implements core.StandingHold.
func (h *hold) Standing() core.Standing {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	return core.Standing{
		Lease: h.id(), Granted: h.since.UnixMicro(), Since: h.since, Until: h.deadline.Time(), Over: h.over || h.forgotten,
	}
}

// id is the hold's lease for detectors of deadlocks. locks.mu is held.
func (h *hold) id() string {
	if h.name == "" {
		h.name = deadlock.Shared.NewID()
	}
	return h.name
}

// Views implements deadlock.Site.
func (l *Locks) Views(_ context.Context, keys []string) map[string]*deadlock.View {
	views := make(map[string]*deadlock.View, len(keys))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if e := l.keys[key]; e != nil {
			views[key] = e.view()
		}
	}
	return views
}

func (e *entry) view() *deadlock.View {
	v := &deadlock.View{Partial: len(e.holds) > deadlock.MaxHolders}
	if v.Partial {
		return v
	}
	for _, h := range e.holds {
		if !h.over { // else the key only stays taken
			v.Holders = append(v.Holders, deadlock.Holder{Lease: h.id(), Reads: e.phase == core.Read, Weight: h.req.Weight})
		}
	}
	if e.phase != core.Read && e.phase != core.Permit {
		return v // who waits behind an exclusive hold does not matter
	}
	for _, w := range e.writers[:min(len(e.writers), deadlock.MaxHolders)] {
		v.Tickets = append(v.Tickets, deadlock.Ticket{ID: w.id(), Weight: w.req.Weight, Of: w.req.Permits})
	}
	return v
}

// Inbox implements deadlock.Site: there is none.
func (l *Locks) Inbox(string) string { return "" }

// Lasts implements deadlock.Site.
func (l *Locks) Lasts(key, ticket string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.keys[key]
	if e == nil {
		return false
	}
	i := slices.IndexFunc(e.writers, func(w *waiter) bool { return w.ticket == ticket })
	return i >= 0 && e.writers[i].lasts()
}

// lasts reports whether the wait does not end by itself within deadlock.Soon.
func (w *waiter) lasts() bool {
	until := w.until()
	return until.IsZero() || time.Until(until) > deadlock.Soon
}

// until returns when the wait ends by itself; zero: never.
func (w *waiter) until() (until time.Time) {
	if w.req.Wait != core.Forever {
		until = w.since.Add(w.req.Wait)
	}
	return core.WaitEnd(w.ctx, until)
}
