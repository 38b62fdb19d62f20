package rw

import (
	"context"
	"slices"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// PassTime implements env.Model. It lets all fixed leases and limited waits expire, including those of calls that are admitted
// in the meantime, and follows events in order.
func (m *model) PassTime(*rapid.T) {
	for m.timed() {
		m.e.Eventually(2*modelFixed+env.AcceptWindow, func() string {
			if m.somethingHappened() {
				return ""
			}
			return "leases and waits do not expire"
		})
		if m.e.T.Failed() {
			return
		}
		m.rest()
		m.happens()
	}
	m.quiet()
}

// rest completes all events of the same instant in a bubble: a call that gives up admits others before it returns.
func (m *model) rest() {
	if m.e.Config.Bubble {
		synctest.Wait()
	}
}

// timed reports whether a fixed lease or a limited wait is left.
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

// nextReturned prefers a call that has given up, because it may have admitted the others.
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

// happens applies one event to the model.
func (m *model) happens() {
	if o := m.nextLost(); o != nil {
		m.loses(o)
		return
	}
	w := m.nextReturned()
	if w.Err == nil {
		m.e.T.Fatalf("a call (reads: %v) has the lock but should wait", w.reads)
	}
	m.gaveUp(w)
	m.leaves(w)
}

// gaveUp checks that a call gave up because of its limit.
func (m *model) gaveUp(w *rwCall) {
	m.e.T.Helper()
	if !w.limited {
		m.e.T.Fatalf("a call without a limit has given up: %v", w.Err)
	}
	m.e.Is("an expired wait", w.Err, lockmw.ErrBusy)
	m.queue = slices.DeleteFunc(m.queue, func(other *rwCall) bool { return other == w })
}

// loses ends an owner whose lease has expired.
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

// succeed grants the lock after the last lease has expired. It is unknown which phase that ended, so readers or a writer may be
// next.
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
		default: // all calls in front have returned or are readers
			m.admit(m.nextWriter())
			return
		}
	}
}
