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

func (m *model) call(t *rapid.T, reads bool) {
	c := env.Draw(t, "client", m.clients)
	// Over several nodes, bids may back off, and leases would expire meanwhile.
	timed := m.e.Config.Bubble && m.e.Config.OverNodes == nil
	fixed := timed && rapid.Bool().Draw(t, "fixed")
	opts := []lockmw.Option{lockmw.WithLease(m.e.Ample(6 * time.Second))} // long enough not to expire
	if fixed {
		opts[0] = lockmw.WithFixedLease(modelFixed)
	}
	if m.admits(reads) {
		ctx, held := m.e.LockWith(m.from(t), m.locker(c, reads), m.key, append(opts, lockmw.WithWait(m.e.Ample(m.e.Soon)))...)
		m.granted(&rwCall{c: c, reads: reads, fixed: fixed}, ctx, held)
		return
	}
	if len(m.queue) >= 6 {
		t.Skip("the queue is full")
	}
	call := &rwCall{c: c, reads: reads, fixed: fixed}
	if timed && rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		call.limited = true
		opts = append(opts, lockmw.WithWait(modelWait))
	}
	if reads && len(m.owners) > 0 && !m.isWritten() {
		heard(m.e, c, m.key, opts...)
	}
	call.Waiter = m.e.WaitWith(m.from(t), m.locker(c, reads), m.key, opts...)
	m.queue = append(m.queue, call)
}

// granted adds an owner.
func (m *model) granted(call *rwCall, ctx context.Context, held *recording.Held) {
	switch token := held.Token(); {
	case call.reads && token < m.written, !call.reads && token <= m.written:
		m.e.T.Errorf("token %d after the writer's %d", token, m.written)
	case !call.reads:
		m.written = token
	}
	m.owners = append(m.owners, &owner{
		c: call.c, fixed: call.fixed, held: held, holds: []*rwHold{{held.Hold, ctx, !call.reads}},
	})
}

func (m *model) try(t *rapid.T) {
	c, reads := env.Draw(t, "client", m.clients), m.sides && rapid.Bool().Draw(t, "reads")
	if m.admits(reads) {
		m.e.Free(m.locker(c, reads), m.key)
		return
	}
	if reads && !m.isWritten() {
		heard(m.e, c, m.key)
	}
	m.e.Busy(m.locker(c, reads), m.key)
}

// owner draws an owner and one of its holds.
func (m *model) owner(t *rapid.T) (*owner, *rwHold) {
	if len(m.owners) == 0 {
		t.Skip("the lock is free")
	}
	o := env.Draw(t, "owner", m.owners)
	return o, env.Draw(t, "hold", o.holds)
}

func (m *model) nest(t *rapid.T) {
	o, from := m.owner(t)
	reads := m.sides && rapid.Bool().Draw(t, "reads")
	if !reads && !o.writing() || len(o.holds) >= 4 {
		t.Skip("an upgrade, or deep enough")
	}
	ctx, h := nest(m.e, context.WithoutCancel(from.ctx), m.locker(o.c, reads), m.key, lockmw.WithWait(0))
	if h.Token() != from.Token() {
		t.Errorf("the nested hold has token %d, the outer one %d", h.Token(), from.Token())
	}
	o.holds = append(o.holds, &rwHold{h, ctx, !reads})
}

func (m *model) upgrade(t *rapid.T) {
	o, from := m.owner(t)
	if o.writing() {
		t.Skip("not an upgrade")
	}
	noUpgrade(m.e, context.WithoutCancel(from.ctx), o.c, m.key)
}

func (m *model) downgrade(t *rapid.T) {
	o, h := m.owner(t)
	if !h.writes {
		notDowngraded(m.e, "a read hold", o.c, h.Hold, lockmw.ErrNotHeld)
		return
	}
	h.writes = false
	do := func() error { return o.c.RW.Downgrade(m.e.Ctx, h.Hold) }
	m.ends(o, do)
}

func (m *model) unlock(t *rapid.T) {
	o, h := m.owner(t)
	o.holds = slices.DeleteFunc(o.holds, func(other *rwHold) bool { return other == h })
	m.closed = append(m.closed, h.Hold)
	m.ends(o, h.Unlock)
}

// ends calls do, which ends or weakens a hold of o; the model has changed already.
func (m *model) ends(o *owner, do func() error) {
	over, wrote := len(o.holds) == 0, !o.held.Reads
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
		m.e.T.Errorf("Unlock or Downgrade: %v", err)
	}
	switch {
	case over:
		m.owners = slices.DeleteFunc(m.owners, func(other *owner) bool { return other == o })
		m.settle(wrote)
	case wrote && o.held.Reads:
		m.admitReaders()
	}
}

func (m *model) again(t *rapid.T) {
	if len(m.closed) == 0 {
		t.Skip("no unlocked holds")
	}
	h := env.Draw(t, "hold", m.closed)
	m.e.Is("second Unlock", h.Unlock(), lockmw.ErrNotHeld)
	if m.sides {
		notDowngraded(m.e, "an unlocked hold", m.clients[0], h, lockmw.ErrNotHeld)
	}
}

func (m *model) cancel(t *rapid.T) {
	if len(m.queue) == 0 {
		t.Skip("no waiters")
	}
	w := env.Draw(t, "waiter", m.queue)
	w.Cancel()
	w.Fails(m.e.Soon, lockmw.ErrBusy, context.Canceled)
	m.leaves(w)
}
