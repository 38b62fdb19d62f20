package inproc

import (
	"context"
	"slices"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
)

// A nested wait is a wait whose context has other holds. It may be in a deadlock. A deadlock that also involves locks on Redis is
// found by the waits for the locks on Redis.
type nested struct {
	deadlock.NestedWait
	w      *waiter
	ticket string
	checks *pauses // between checks; nil: there are none
}

// beginNested registers a wait and returns it if it is nested; otherwise it returns nil.
func (w *waiter) beginNested() *nested {
	chain, ok := w.Ctx.Value(core.ChainKey{}).(core.Chain)
	if !ok || w.Req.Once || w.Req.Leads {
		return nil
	}
	w.Lock()
	n := &nested{w: w, ticket: w.id()}
	w.Unlock()
	n.NestedWait = deadlock.NestedWait{
		Waits: deadlock.Shared, Request: w.Req, Began: w.Began.Time(), Until: w.Until(), Process: "local", Site: w.locks, Call: n, Wake: func(time.Duration) {},
	}
	if !n.Begin(chain) {
		return nil
	}
	if w.Req.Detect > 0 {
		n.checks = startPauses(w.Req.Detect, n.CheckLocally)
	}
	return n
}

// end ends the registration.
func (n *nested) end() {
	n.checks.stop()
	n.End()
}

// State implements deadlock.Call.
func (n *nested) State() (ticket string, waits bool) {
	n.w.Lock()
	defer n.w.Unlock()
	return n.ticket, !n.w.IsOver()
}

// id returns the waiter's ticket for deadlock detectors. locks.mu is held.
func (w *waiter) id() string {
	if w.ticket == "" {
		w.ticket = deadlock.Shared.NewID()
	}
	return w.ticket
}

// State implements core.BlockingHold.
func (h *hold) State() core.HoldState {
	h.locks.mu.Lock()
	defer h.locks.mu.Unlock()
	return core.HoldState{
		Lease: h.id(), Granted: h.granted, Since: h.Since.Time(), Until: h.deadline.Time(), Over: h.Over || h.Forgotten,
	}
}

// id returns the hold's lease for deadlock detectors. locks.mu is held.
func (h *hold) id() string {
	if h.name == "" {
		h.name, h.granted = deadlock.Shared.NewID(), h.Since.Time().UnixMicro()
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
		if !h.Over { // otherwise the key only stays taken
			v.Holders = append(v.Holders, deadlock.Holder{Lease: h.id(), Reads: e.phase == core.Read, Weight: h.Req.Weight})
		}
	}
	if e.phase != core.Read && e.phase != core.Permit {
		return v // waiters behind an exclusive hold do not matter
	}
	for _, w := range e.writers[:min(len(e.writers), deadlock.MaxHolders)] {
		v.Tickets = append(v.Tickets, deadlock.Ticket{ID: w.id(), Weight: w.Req.Weight, Permits: w.Req.Permits})
	}
	return v
}

// Inbox implements deadlock.Site: locks within a process have no inbox.
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
	return i >= 0 && e.writers[i].LastsFor(deadlock.ShortWait)
}
