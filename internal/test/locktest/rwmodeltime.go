package locktest

import (
	"context"
	"slices"

	"pgregory.net/rapid"

	"github.com/lockmw/go/lockmw"
)

// passTime lets all fixed leases and all limited waits run out, also those of calls that are let in
// meanwhile. It takes things in the order in which they happen.
func (m *rwModel) passTime(*rapid.T) {
	for m.timed() {
		m.e.eventually(2*rwModelFixed+acceptWindow, func() string {
			if m.somethingHappened() {
				return ""
			}
			return "leases and waits do not run out"
		})
		if m.e.t.Failed() {
			return
		}
		m.happens()
	}
	m.quiet()
}

// timed reports whether anything is left that ends by itself.
func (m *rwModel) timed() bool {
	return slices.ContainsFunc(m.owners, func(o *rwOwner) bool { return o.fixed }) ||
		slices.ContainsFunc(m.queue, func(w *rwCall) bool { return w.limited })
}

func (m *rwModel) somethingHappened() bool { return m.nextLost() != nil || m.nextReturned() != nil }

func (m *rwModel) nextLost() *rwOwner {
	i := slices.IndexFunc(m.owners, func(o *rwOwner) bool { return o.fixed && o.holds[0].ctx.Err() != nil })
	if i < 0 {
		return nil
	}
	return m.owners[i]
}

// nextReturned is first who has given up, as that may be why others have not.
func (m *rwModel) nextReturned() *rwCall {
	i := slices.IndexFunc(m.queue, func(w *rwCall) bool { return w.returned() && w.err != nil })
	if i < 0 {
		i = slices.IndexFunc(m.queue, func(w *rwCall) bool { return w.returned() })
	}
	if i < 0 {
		return nil
	}
	return m.queue[i]
}

// happens has the model follow one thing that happened.
func (m *rwModel) happens() {
	if o := m.nextLost(); o != nil {
		m.loses(o)
		return
	}
	w := m.nextReturned()
	if w.err == nil {
		m.e.t.Fatalf("a call has the lock, for reading: %v, which it should wait for", w.reads)
	}
	m.gaveUp(w)
	m.leaves(w)
}

// gaveUp checks that a call's time was up.
func (m *rwModel) gaveUp(w *rwCall) {
	m.e.t.Helper()
	if !w.limited {
		m.e.t.Fatalf("a call has given up: %v", w.err)
	}
	m.e.is("a wait that ran out", w.err, lockmw.ErrBusy)
	m.queue = slices.DeleteFunc(m.queue, func(other *rwCall) bool { return other == w })
}

// loses ends an owner whose lease has run out.
func (m *rwModel) loses(o *rwOwner) {
	for _, h := range o.holds {
		m.e.is("the cause of a hold's end", context.Cause(h.ctx), lockmw.ErrLost)
		m.e.is("Unlock of a lost hold", h.Unlock(), lockmw.ErrLost)
		m.closed = append(m.closed, h.Hold)
	}
	m.owners = slices.DeleteFunc(m.owners, func(other *rwOwner) bool { return other == o })
	if len(m.owners) == 0 {
		m.succeed()
	}
}

// succeed is what follows the end of the last lease: nobody knows of which phase that was, so that
// readers or a writer may come next.
func (m *rwModel) succeed() {
	for len(m.queue) > 0 {
		var waiting []*waiter
		for _, w := range m.queue {
			waiting = append(waiting, w.waiter)
		}
		m.e.first(m.e.soon+rwModelFixed/50+pollInterval, waiting)
		next := m.nextReturned()
		switch {
		case next.err != nil:
			m.gaveUp(next)
		case next.reads:
			m.admitReaders()
			return
		default: // those before it have returned, or are readers
			m.admit(m.queue[slices.IndexFunc(m.queue, func(w *rwCall) bool { return !w.reads })])
			return
		}
	}
}
