package locktest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lockmw/go/lockmw"
)

var readWriteModelled = []scenario{
	{"random operations do what a simple model of phase-fairness does", randomReadsAndWrites, twoSided | shares | sample},
}

func randomReadsAndWrites(e *env) {
	clients := e.clients(3)
	// A bubble has no deadline, and panics when it is asked for it: that method is hidden.
	rapid.Check(struct{ testing.TB }{e.tb}, func(t *rapid.T) {
		m := newRWModel(e, t, clients)
		defer m.end()
		actions := map[string]func(*rapid.T){
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
		if e.cfg.Bubble {
			actions["pass time"] = m.passTime
		}
		t.Repeat(actions)
	})
}

const (
	rwModelFixed = 2 * time.Second // the fixed lease of some holds
	rwModelWait  = time.Second     // the limit of some calls
)

// An rwModel is what a phase-fair lock should be: one writer or some readers, and those who wait in the
// order in which they came.
type rwModel struct {
	e       *env
	clients []*client
	key     string
	owners  []*rwOwner // who have the lock
	queue   []*rwCall
	closed  []*lockmw.Hold // unlocked holds
	written int64          // the last writer's token
}

// An rwCall waits.
type rwCall struct {
	*waiter
	c       *client
	reads   bool
	fixed   bool
	limited bool // it gives up by itself
}

// An rwOwner has the lock, once or several times over.
type rwOwner struct {
	c     *client
	fixed bool
	held  *Held
	holds []*rwHold
}

type rwHold struct {
	*lockmw.Hold
	ctx    context.Context
	writes bool
}

func newRWModel(e *env, t *rapid.T, clients []*client) *rwModel {
	sub := *e
	sub.t, sub.rec = t, e.newRecorder()
	ctx, cancel := context.WithCancel(e.ctx)
	t.Cleanup(cancel)
	sub.ctx = ctx
	return &rwModel{e: &sub, clients: clients, key: e.key("item")}
}

// end leaves nothing behind for the next round.
func (m *rwModel) end() {
	for _, w := range m.queue {
		w.cancel()
		<-w.done
		if w.err == nil {
			_ = w.held.Unlock()
		}
	}
	for _, o := range m.owners {
		for _, h := range o.holds {
			_ = o.held.End(h.Unlock)
		}
	}
	for _, v := range m.e.rec.Violations() {
		m.e.t.Error(v)
	}
}

// writing reports whether one of o's holds writes.
func (o *rwOwner) writing() bool {
	return slices.ContainsFunc(o.holds, func(h *rwHold) bool { return h.writes })
}

// isWritten reports whether a writer has the lock.
func (m *rwModel) isWritten() bool { return len(m.owners) > 0 && m.owners[0].writing() }

// writerWaits reports whether a writer waits.
func (m *rwModel) writerWaits() bool {
	return slices.ContainsFunc(m.queue, func(c *rwCall) bool { return !c.reads })
}

// admits reports whether a call gets the lock without waiting.
func (m *rwModel) admits(reads bool) bool {
	return len(m.owners) == 0 || reads && !m.isWritten() && !m.writerWaits()
}

// leaves takes a call that has given up out of the queue.
func (m *rwModel) leaves(w *rwCall) {
	m.queue = slices.DeleteFunc(m.queue, func(other *rwCall) bool { return other == w })
	if len(m.owners) > 0 && !m.isWritten() && !m.writerWaits() {
		m.admitReaders()
	}
	m.quiet()
}

// quiet waits until the server has heard of those who gave up: until then it may grant them the lock.
func (m *rwModel) quiet() {
	switch {
	case m.e.cfg.Bubble:
		synctest.Wait()
	case m.e.server != nil:
		m.e.eventually(m.e.soon, func() string {
			if n := len(m.e.status(m.key).Waiters); n > len(m.queue) {
				return fmt.Sprintf("%d are queued, not %d", n, len(m.queue))
			}
			return ""
		})
	}
}

// settle is what follows the end of a phase.
func (m *rwModel) settle(wrote bool) {
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

func (m *rwModel) admitReaders() {
	for _, w := range slices.Clone(m.queue) {
		if w.reads {
			m.admit(w)
		}
	}
}

func (m *rwModel) admit(w *rwCall) {
	m.e.t.Helper()
	if w.limited && w.returns(m.e.soon) && w.err != nil { // its time was up just then
		m.gaveUp(w)
		return
	}
	ctx, held := w.gets(m.e.soon)
	m.queue = slices.DeleteFunc(m.queue, func(other *rwCall) bool { return other == w })
	m.granted(w, ctx, held)
}

// check compares the lock with the model after each operation.
func (m *rwModel) check(*rapid.T) {
	for _, w := range m.queue {
		w.isWaiting()
	}
	for _, o := range m.owners {
		for _, h := range o.holds {
			if h.ctx.Err() != nil {
				m.e.t.Errorf("a hold has ended: %v", context.Cause(h.ctx))
			}
		}
	}
}
