package rw

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/judge"
	"github.com/lockmw/go/lockmw"
)

var modelled = []env.Scenario{
	env.Case("random operations do what a simple model of phase-fairness does", randomReadsAndWrites, env.TwoSided|env.Shares|env.Sample),
}

func randomReadsAndWrites(e *env.Env) {
	e.Compare(func(t *rapid.T, clients []*env.Client) env.Model { return newRWModel(e, t, clients) })
}

const (
	rwModelFixed = 2 * time.Second // the fixed lease of some holds
	rwModelWait  = time.Second     // the limit of some calls
)

// An model is what a phase-fair lock should be: one writer or some readers, and those who wait in the
// order in which they came.
type model struct {
	e       *env.Env
	clients []*env.Client
	key     string
	owners  []*owner // who have the lock
	queue   []*rwCall
	closed  []*lockmw.Hold // unlocked holds
	written int64          // the last writer's token
}

// An rwCall waits.
type rwCall struct {
	*env.Waiter
	c       *env.Client
	reads   bool
	fixed   bool
	limited bool // it gives up by itself
}

// An owner has the lock, once or several times over.
type owner struct {
	c     *env.Client
	fixed bool
	held  *judge.Held
	holds []*rwHold
}

type rwHold struct {
	*lockmw.Hold
	ctx    context.Context
	writes bool
}

func newRWModel(e *env.Env, t *rapid.T, clients []*env.Client) *model {
	return &model{e: e.Round(t), clients: clients, key: e.Key("item")}
}

// Actions implements env.Model.
func (m *model) Actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":          m.check,
		"read":      func(t *rapid.T) { m.call(t, true) },
		"write":     func(t *rapid.T) { m.call(t, false) },
		"try":       m.try,
		"nest":      m.nest,
		"upgrade":   m.upgrade,
		"downgrade": m.downgrade,
		"unlock":    m.unlock,
		"again":     m.again,
		"cancel":    m.cancel,
	}
}

// End implements env.Model.
func (m *model) End() {
	for _, w := range m.queue {
		w.Cancel()
		<-w.Done
		if w.Err == nil {
			_ = w.Held.Unlock()
		}
	}
	for _, o := range m.owners {
		for _, h := range o.holds {
			_ = o.held.End(h.Unlock)
		}
	}
	for _, v := range m.e.Rec.Violations() {
		m.e.T.Error(v)
	}
}

// writing reports whether one of o's holds writes.
func (o *owner) writing() bool {
	return slices.ContainsFunc(o.holds, func(h *rwHold) bool { return h.writes })
}

// isWritten reports whether a writer has the lock.
func (m *model) isWritten() bool { return len(m.owners) > 0 && m.owners[0].writing() }

// writerWaits reports whether a writer waits.
func (m *model) writerWaits() bool {
	return slices.ContainsFunc(m.queue, func(c *rwCall) bool { return !c.reads })
}

// admits reports whether a call gets the lock without waiting.
func (m *model) admits(reads bool) bool {
	return len(m.owners) == 0 || reads && !m.isWritten() && !m.writerWaits()
}

// leaves takes a call that has given up out of the queue.
func (m *model) leaves(w *rwCall) {
	m.queue = slices.DeleteFunc(m.queue, func(other *rwCall) bool { return other == w })
	if len(m.owners) > 0 && !m.isWritten() && !m.writerWaits() {
		m.admitReaders()
	}
	m.quiet()
}

// quiet waits until the server has heard of those who gave up. Readers of one client share a ticket.
func (m *model) quiet() {
	m.e.GivenUp(m.key, func(queued []lockmw.Waiter) bool {
		tickets := make(map[bool]int) // by whether they read
		for _, w := range queued {
			tickets[w.Mode == "read"]++
		}
		reading, writers := make(map[*env.Client]bool), 0
		for _, c := range m.queue {
			if c.reads {
				reading[c.c] = true
			} else {
				writers++
			}
		}
		return tickets[false] <= writers && tickets[true] <= len(reading)
	})
}

// settle is what follows the end of a phase.
func (m *model) settle(wrote bool) {
	if len(m.owners) > 0 || len(m.queue) == 0 {
		return
	}
	readers := slices.ContainsFunc(m.queue, func(c *rwCall) bool { return c.reads })
	if readers && (wrote || !m.writerWaits()) {
		m.admitReaders()
		return
	}
	m.admit(m.queue[slices.IndexFunc(m.queue, func(c *rwCall) bool { return !c.reads })])
}

func (m *model) admitReaders() {
	for _, w := range slices.Clone(m.queue) {
		if w.reads {
			m.admit(w)
		}
	}
}

func (m *model) admit(w *rwCall) {
	m.e.T.Helper()
	if w.limited && w.Returns(m.e.Soon) && w.Err != nil { // its time was up just then
		m.gaveUp(w)
		return
	}
	ctx, held := w.Gets(m.e.Soon)
	m.queue = slices.DeleteFunc(m.queue, func(other *rwCall) bool { return other == w })
	m.granted(w, ctx, held)
}

// check compares the lock with the model after each operation.
func (m *model) check(*rapid.T) {
	for _, w := range m.queue {
		w.IsWaiting()
	}
	for _, o := range m.owners {
		for _, h := range o.holds {
			if h.ctx.Err() != nil {
				m.e.T.Errorf("a hold has ended: %v", context.Cause(h.ctx))
			}
		}
	}
}
