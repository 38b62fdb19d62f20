package rw

import (
	"context"
	"slices"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// PassTime implements env.Model: it lets all fixed leases and all limited waits run out, also those of calls that are let in
// meanwhile. It takes things in the order in which they happen.
func (m *model) PassTime(*rapid.T) {
	for m.timed() {
		m.e.Eventually(2*modelFixed+env.AcceptWindow, func() string {
			if m.somethingHappened() {
				return ""
			}
			return "leases and waits do not run out"
		})
		if m.e.T.Failed() {
			return
		}
		m.rest()
		m.happens()
	}
	m.quiet()
}

// rest has what happens in the same instant come to its end, where instants are exact: a call that gives up lets
// others in before it has returned itself.
func (m *model) rest() {
	if m.e.Config.Bubble {
		synctest.Wait()
	}
}

// timed reports whether anything is left that ends by itself.
func (m *model) timed() bool {
	return slices.ContainsFunc(m.owners, func(o *owner) bool { return o.fixed }) ||
		slices.ContainsFunc(m.queue, func(w *rwCall) bool { return w.limited })
}

func (m *model) somethingHappened() bool { return m.nextLost() != nil || m.nextReturned() != nil }

func (m *model) nextLost() *owner {
	i := slices.IndexFunc(m.owners, func(o *owner) bool { return o.fixed && o.holds[0].ctx.Err() != nil })
	if i < 0 {
		return nil
	}
	return m.owners[i]
}

// nextReturned is first who has given up, as that may be why others have not.
func (m *model) nextReturned() *rwCall {
	i := slices.IndexFunc(m.queue, func(w *rwCall) bool { return w.Returned() && w.Err != nil })
	if i < 0 {
		i = slices.IndexFunc(m.queue, func(w *rwCall) bool { return w.Returned() })
	}
	if i < 0 {
		return nil
	}
	return m.queue[i]
}

// happens has the model follow one thing that happened.
func (m *model) happens() {
	if o := m.nextLost(); o != nil {
		m.loses(o)
		return
	}
	w := m.nextReturned()
	if w.Err == nil {
		m.e.T.Fatalf("a call has the lock, for reading: %v, which it should wait for", w.reads)
	}
	m.gaveUp(w)
	m.leaves(w)
}

// gaveUp checks that a call's time was up.
func (m *model) gaveUp(w *rwCall) {
	m.e.T.Helper()
	if !w.limited {
		m.e.T.Fatalf("a call has given up: %v", w.Err)
	}
	m.e.Is("a wait that ran out", w.Err, lockmw.ErrBusy)
	m.queue = slices.DeleteFunc(m.queue, func(other *rwCall) bool { return other == w })
}

// loses ends an owner whose lease has run out.
func (m *model) loses(o *owner) {
	for _, h := range o.holds {
		m.e.Is("the cause of a hold's end", context.Cause(h.ctx), lockmw.ErrLost)
		m.e.Is("Unlock of a lost hold", h.Unlock(), lockmw.ErrLost)
		m.closed = append(m.closed, h.Hold)
	}
	m.owners = slices.DeleteFunc(m.owners, func(other *owner) bool { return other == o })
	if len(m.owners) == 0 {
		m.succeed()
	}
}

// succeed is what follows the end of the last lease: nobody knows of which phase that was, so that
// readers or a writer may come next.
func (m *model) succeed() {
	for len(m.queue) > 0 {
		m.firstReturns(m.e.Soon + modelFixed/50 + env.PollInterval)
		m.rest()
		next := m.nextReturned()
		switch {
		case next.Err != nil:
			m.gaveUp(next)
		case next.reads:
			m.admitReaders()
			return
		default: // those before it have returned, or are readers
			m.admit(m.nextWriter())
			return
		}
	}
}
