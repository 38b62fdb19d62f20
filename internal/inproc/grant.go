package inproc

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A grant is one hold of a key. Its fields other than the first three are guarded by locks.mu.
type grant struct {
	locks *Locks
	req   *core.Request
	token int64

	entry    *entry
	index    int // in the entry's holds; -1: no more there
	since    time.Time
	lease    time.Duration // how much is left after a renewal
	deadline time.Time     // zero: none, since the process that renews it is the one that keeps it
	limit    *time.Timer   // ends the hold at its deadline; after a release, the rest of its minimum time
	over     bool          // released or lost; what was released may keep the key taken for a while
	lost     bool
}

// grant makes e held by r; l.mu is held.
func (l *Locks) grant(e *entry, r *core.Request) *grant {
	e.phase = r.Mode
	switch {
	case r.Mode != core.Read:
		l.token++
		e.token = l.token
	case e.token == 0: // of whoever wrote before nothing is known but that it had none greater
		l.token = max(l.token, 1)
		e.token = l.token
	}
	g := &grant{
		locks: l, req: r, token: e.token, entry: e, index: len(e.holds), since: time.Now(), lease: r.Lease,
	}
	e.holds = append(e.holds, g)
	g.setDeadline()
	return g
}

// setDeadline computes when the hold ends by itself and sees to it.
func (g *grant) setDeadline() {
	if g.req.Fixed {
		g.deadline = time.Now().Add(g.lease)
	}
	if most := g.since.Add(g.req.MaxHold); g.req.MaxHold > 0 && (g.deadline.IsZero() || most.Before(g.deadline)) {
		g.deadline = most
	}
	g.stopLimit()
	if !g.deadline.IsZero() {
		g.limit = time.AfterFunc(time.Until(g.deadline), g.expire)
	}
}

func (g *grant) stopLimit() {
	if g.limit != nil {
		g.limit.Stop()
	}
}

// expire ends the hold as lost if its deadline has passed; an Extend may have moved it.
func (g *grant) expire() {
	g.locks.mu.Lock()
	lost := !g.over && g.isPast()
	if lost {
		g.lost = true
		g.locks.end(g)
	}
	g.locks.mu.Unlock()
	if lost {
		g.req.Events.Lost(fmt.Errorf("%w: its time ran out", core.ErrLost))
	}
}

func (g *grant) isPast() bool { return !g.deadline.IsZero() && !time.Now().Before(g.deadline) }

// end takes g off its key and lets others in; l.mu is held.
func (l *Locks) end(g *grant) {
	g.over = true
	g.stopLimit()
	if g.index < 0 {
		return
	}
	e, last := g.entry, len(g.entry.holds)-1
	e.holds[g.index] = e.holds[last]
	e.holds[g.index].index = g.index
	e.holds[last] = nil
	e.holds = e.holds[:last]
	g.index = -1
	l.settle(e)
}

// check returns why g is no hold any more, if so.
func (g *grant) check() error {
	switch {
	case g.lost, !g.over && g.isPast():
		return core.ErrLost
	case g.over:
		return core.ErrNotHeld
	}
	return nil
}

// Token implements core.Grant.
func (g *grant) Token() int64 { return g.token }

// Deadline implements core.Grant.
func (g *grant) Deadline() time.Time {
	g.locks.mu.Lock()
	defer g.locks.mu.Unlock()
	return g.deadline
}

// Expired implements core.Grant.
func (g *grant) Expired() bool {
	g.locks.mu.Lock()
	defer g.locks.mu.Unlock()
	return g.lost || !g.over && g.isPast()
}

// Extend implements core.Grant.
func (g *grant) Extend(_ context.Context, lease time.Duration) error {
	g.locks.mu.Lock()
	defer g.locks.mu.Unlock()
	if err := g.check(); err != nil {
		return err
	}
	g.lease = lease
	g.setDeadline()
	return nil
}

// Downgrade implements core.Grant.
func (g *grant) Downgrade(context.Context) error {
	g.locks.mu.Lock()
	defer g.locks.mu.Unlock()
	if err := g.check(); err != nil {
		return err
	}
	if e := g.entry; e.phase != core.Read {
		e.phase = core.Read
		g.locks.admitReaders(e) // as at a release, though the phase that begins has one reader already
	}
	return nil
}

// Release implements core.Grant.
func (g *grant) Release(time.Duration) (int, error) {
	l, e := g.locks, g.entry
	l.mu.Lock()
	defer l.mu.Unlock()
	waiters, err := e.waiting(), g.check()
	if g.over {
		return waiters, err
	}
	g.lost = err != nil // and its timer is late
	if !g.lost {
		e.giveUpTicket(g.req.Ticket)
		if rest := time.Until(g.since.Add(g.req.MinHold)); rest > 0 {
			g.linger(rest)
			return waiters, nil
		}
	}
	l.end(g)
	return waiters, err
}

// linger keeps the key taken for a while though the hold is over.
func (g *grant) linger(rest time.Duration) {
	g.over = true
	g.stopLimit()
	g.limit = time.AfterFunc(rest, func() {
		g.locks.mu.Lock()
		defer g.locks.mu.Unlock()
		g.locks.end(g)
	})
}
