package rw

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var modelled = []env.Scenario{
	env.Case("random operations match a simple model of the lock", func(e *env.Env) { randomly(e, false) },
		env.Excludes|env.Shares|env.Costly|env.Sample),
	env.Case("random operations match a simple model of phase-fairness", func(e *env.Env) { randomly(e, true) },
		env.TwoSided|env.Shares|env.Sample),
}

func randomly(e *env.Env, sides bool) {
	e.Compare(func(t *rapid.T, clients []*env.Client) env.Model { return newModel(e, t, clients, sides) })
}

const (
	modelFixed = 2 * time.Second // the fixed lease of some holds
	modelWait  = time.Second     // the limit of some calls
)

// A model is a simple lock. With two sides it has one writer or several readers, and waiters in order of arrival. With one
// side it has one owner, and any waiter may be next.
type model struct {
	e       *env.Env
	clients []*env.Client
	key     string
	sides   bool            // it has two sides
	inside  context.Context // of a hold of another key
	another *recording.Held
	owners  []*owner // current holders
	queue   []*rwCall
	closed  []*lockmw.Hold // unlocked holds
	written int64          // the last writer's token
}

// An rwCall is a waiting call.
type rwCall struct {
	*env.Waiter
	c       *env.Client
	reads   bool
	fixed   bool
	limited bool // it has a wait limit
}

// An owner holds the lock, perhaps with nested holds.
type owner struct {
	c     *env.Client
	fixed bool
	held  *recording.Held
	holds []*rwHold
}

type rwHold struct {
	*lockmw.Hold
	ctx    context.Context
	writes bool
}

func newModel(e *env.Env, t *rapid.T, clients []*env.Client, sides bool) *model {
	m := &model{e: e.Round(t), clients: clients, key: e.Key("item"), sides: sides}
	m.inside, m.another = m.e.Lock(clients[0], e.Key("user"))
	return m
}

// Actions implements env.Model.
func (m *model) Actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"":       m.check,
		"write":  func(t *rapid.T) { m.call(t, false) },
		"try":    m.try,
		"nest":   m.nest,
		"unlock": m.unlock,
		"again":  m.again,
		"cancel": m.cancel,
	}
	if m.sides {
		actions["read"] = func(t *rapid.T) { m.call(t, true) }
		actions["upgrade"], actions["downgrade"] = m.upgrade, m.downgrade
	}
	return actions
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
	_ = m.another.Unlock()
	for _, v := range m.e.Rec.Violations() {
		m.e.T.Error(v)
	}
}

// locker returns the Locker with which c takes the lock.
func (m *model) locker(c *env.Client, reads bool) lockmw.Locker {
	if m.sides {
		return c.Side(reads)
	}
	return c
}

// from draws the context of a call.
func (m *model) from(t *rapid.T) context.Context {
	return env.Draw(t, "context", []context.Context{m.e.Ctx, m.inside})
}

// writing reports whether o has a write hold.
func (o *owner) writing() bool {
	return slices.ContainsFunc(o.holds, func(h *rwHold) bool { return h.writes })
}

// isWritten reports whether a writer holds the lock.
func (m *model) isWritten() bool { return len(m.owners) > 0 && m.owners[0].writing() }

// writerWaits reports whether a writer waits.
func (m *model) writerWaits() bool {
	return slices.ContainsFunc(m.queue, func(c *rwCall) bool { return !c.reads })
}

// admits reports whether a call gets the lock without waiting.
func (m *model) admits(reads bool) bool {
	return len(m.owners) == 0 || reads && !m.isWritten() && !m.writerWaits()
}

// leaves removes a call that has given up from the queue.
func (m *model) leaves(w *rwCall) {
	m.queue = slices.DeleteFunc(m.queue, func(other *rwCall) bool { return other == w })
	if len(m.owners) > 0 && !m.isWritten() && !m.writerWaits() {
		m.admitReaders()
	}
	m.quiet()
}

// quiet waits until the server has removed the tickets of cancelled calls. Readers of one client share a ticket.
func (m *model) quiet() {
	if !m.sides {
		return // calls of a client share a ticket
	}
	m.e.AwaitCancelled(m.key, func(queued []lockmw.Waiter) bool {
		tickets := make(map[bool]int) // by whether it reads
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

// settle grants the lock after the end of a phase.
func (m *model) settle(wrote bool) {
	if len(m.owners) > 0 || len(m.queue) == 0 {
		return
	}
	readers := slices.ContainsFunc(m.queue, func(c *rwCall) bool { return c.reads })
	if readers && (wrote || !m.writerWaits()) {
		m.admitReaders()
		return
	}
	m.admit(m.nextWriter())
}

// nextWriter returns the first waiting writer. With one side it is the first call to return.
func (m *model) nextWriter() *rwCall {
	if m.sides {
		return m.queue[slices.IndexFunc(m.queue, func(c *rwCall) bool { return !c.reads })]
	}
	m.firstReturns(m.e.Soon)
	next := m.nextReturned()
	for _, w := range m.queue { // the lease of the first one may have expired already
		if w.Returned() && w.Err == nil && next.Err == nil && w.Held.Token() < next.Held.Token() {
			next = w
		}
	}
	return next
}

// firstReturns waits until a waiting call has returned.
func (m *model) firstReturns(within time.Duration) {
	if m.nextReturned() != nil {
		return
	}
	var waiting []*env.Waiter
	for _, w := range m.queue {
		waiting = append(waiting, w.Waiter)
	}
	env.First(within, waiting)
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
	if w.limited && w.Returns(m.e.Soon) && w.Err != nil { // its wait limit was reached at this moment
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
