package locktest

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/lockmw/go/lockmw"
)

func (m *rwModel) call(t *rapid.T, reads bool) {
	c := draw(t, "client", m.clients)
	fixed := m.e.cfg.Bubble && rapid.Bool().Draw(t, "fixed")
	opts := []lockmw.Option{lockmw.WithLease(time.Second)}
	if fixed {
		opts[0] = lockmw.WithFixedLease(rwModelFixed)
	}
	if m.admits(reads) {
		ctx, held := m.e.lock(c.side(reads), m.key, append(opts, lockmw.WithWait(m.e.soon))...)
		m.granted(&rwCall{c: c, reads: reads, fixed: fixed}, ctx, held)
		return
	}
	if len(m.queue) >= 6 {
		t.Skip("enough wait")
	}
	call := &rwCall{c: c, reads: reads, fixed: fixed}
	if m.e.cfg.Bubble && rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		call.limited = true
		opts = append(opts, lockmw.WithWait(rwModelWait))
	}
	if reads && len(m.owners) > 0 && !m.isWritten() {
		m.e.heard(c, m.key, opts...)
	}
	call.waiter = m.e.wait(c.side(reads), m.key, opts...)
	m.queue = append(m.queue, call)
}

// granted makes a call one of the owners.
func (m *rwModel) granted(call *rwCall, ctx context.Context, held *Held) {
	switch token := held.Token(); {
	case call.reads && token < m.written, !call.reads && token <= m.written:
		m.e.t.Errorf("token %d after the writer's %d", token, m.written)
	case !call.reads:
		m.written = token
	}
	m.owners = append(m.owners, &rwOwner{
		c: call.c, fixed: call.fixed, held: held, holds: []*rwHold{{held.Hold, ctx, !call.reads}},
	})
}

func (m *rwModel) try(t *rapid.T) {
	c, reads := draw(t, "client", m.clients), rapid.Bool().Draw(t, "reads")
	if m.admits(reads) {
		m.e.free(c.side(reads), m.key)
		return
	}
	if reads && !m.isWritten() {
		m.e.heard(c, m.key)
	}
	m.e.busy(c.side(reads), m.key)
}

// owner draws one, and one of its holds.
func (m *rwModel) owner(t *rapid.T) (*rwOwner, *rwHold) {
	if len(m.owners) == 0 {
		t.Skip("nobody has the lock")
	}
	o := draw(t, "owner", m.owners)
	return o, draw(t, "hold", o.holds)
}

func (m *rwModel) nest(t *rapid.T) {
	o, from := m.owner(t)
	reads := rapid.Bool().Draw(t, "reads")
	if !reads && !o.writing() || len(o.holds) >= 4 {
		t.Skip("that is an upgrade, or deep enough")
	}
	ctx, h := m.e.nest(context.WithoutCancel(from.ctx), o.c.side(reads), m.key, lockmw.WithWait(0))
	if h.Token() != from.Token() {
		t.Errorf("the nested hold has token %d, the outer one %d", h.Token(), from.Token())
	}
	o.holds = append(o.holds, &rwHold{h, ctx, !reads})
}

func (m *rwModel) upgrade(t *rapid.T) {
	o, from := m.owner(t)
	if o.writing() {
		t.Skip("that is no upgrade")
	}
	m.e.noUpgrade(context.WithoutCancel(from.ctx), o.c, m.key)
}

func (m *rwModel) downgrade(t *rapid.T) {
	o, h := m.owner(t)
	if !h.writes {
		m.e.notDowngraded("a hold that reads", o.c, h.Hold, lockmw.ErrNotHeld)
		return
	}
	h.writes = false
	do := func() error { return o.c.rw.Downgrade(m.e.ctx, h.Hold) }
	m.ends(o, do)
}

func (m *rwModel) unlock(t *rapid.T) {
	o, h := m.owner(t)
	o.holds = slices.DeleteFunc(o.holds, func(other *rwHold) bool { return other == h })
	m.closed = append(m.closed, h.Hold)
	m.ends(o, h.Unlock)
}

// ends does what makes o's holds fewer or weaker, as the model has them already.
func (m *rwModel) ends(o *rwOwner, do func() error) {
	over, wrote := len(o.holds) == 0, !o.held.reads
	var err error
	switch {
	case over:
		err = o.held.End(do)
	case wrote && !o.writing():
		err = o.held.Share(do)
	default:
		err = do()
	}
	if err != nil {
		m.e.t.Errorf("Unlock or Downgrade: %v", err)
	}
	switch {
	case over:
		m.owners = slices.DeleteFunc(m.owners, func(other *rwOwner) bool { return other == o })
		m.settle(wrote)
	case wrote && o.held.reads:
		m.admitReaders()
	}
}

func (m *rwModel) again(t *rapid.T) {
	if len(m.closed) == 0 {
		t.Skip("nothing was unlocked")
	}
	h := draw(t, "hold", m.closed)
	m.e.is("Unlock once more", h.Unlock(), lockmw.ErrNotHeld)
	m.e.notDowngraded("what was unlocked", m.clients[0], h, lockmw.ErrNotHeld)
}

func (m *rwModel) cancel(t *rapid.T) {
	if len(m.queue) == 0 {
		t.Skip("nobody waits")
	}
	w := draw(t, "waiter", m.queue)
	w.cancel()
	w.fails(m.e.soon, lockmw.ErrBusy, context.Canceled)
	m.leaves(w)
}
