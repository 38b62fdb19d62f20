package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/script"
)

// A grant is one caller's turn with a lease; it implements core.Grant.
type grant struct {
	lease  *lease
	req    *core.Request
	token  int64
	since  instant
	limit  atomic.Int64 // instant: the end of the maximum hold or the fixed lease; 0: none
	lost   error
	over   bool
	unused bool // its caller has gone without knowing of it

	list.Links[*grant] // of those that share the lease
}

// after adds without running over.
func after(t instant, d time.Duration) instant {
	if d > never-t {
		return never
	}
	return t + d
}

func (g *grant) limitTo(t instant) {
	if limit := instant(g.limit.Load()); limit == 0 || t < limit {
		g.limit.Store(int64(t))
	}
}

// deadline is when the grant is over unless its lease is renewed.
func (g *grant) deadline() instant {
	expires := instant(g.lease.expires.Load())
	if limit := instant(g.limit.Load()); limit != 0 {
		return min(limit, expires)
	}
	return expires
}

func (g *grant) whyOver(now instant) string {
	switch {
	case g.req.MaxHold > 0 && now >= after(g.since, g.req.MaxHold):
		return "its maximum hold is over"
	case g.req.Fixed:
		return "its fixed lease is over"
	}
	return "its lease ran out without a renewal"
}

func (g *grant) tellLost() { g.req.Events.Lost(g.lost) }

func tellLost(grants []*grant) {
	for _, g := range grants {
		g.tellLost()
	}
}

// keepsPlace reports whether a place in the queue is kept for its caller, which ends with the hold.
func (g *grant) keepsPlace() bool { return g.req.Keep > 0 && !g.unused }

// Token implements core.Grant.
func (g *grant) Token() int64 { return g.token }

// Deadline implements core.Grant.
func (g *grant) Deadline() time.Time { return g.lease.c.e.epoch.Add(g.deadline()) }

// Expired implements core.Grant.
func (g *grant) Expired() bool { return g.lease.c.e.now() >= g.deadline() }

// Extend implements core.Grant.
func (g *grant) Extend(ctx context.Context, duration time.Duration) error {
	l, c := g.lease, g.lease.c
	c.shard.mu.Lock()
	if c.shares() {
		duration = min(duration, l.duration) // others have not asked for more
	}
	c.shard.mu.Unlock()
	answers := make(chan *script.Reply, 1)
	c.e.sender.Start(l.renewal(ctx, duration, func(a *script.Reply) { answers <- a }))
	var a *script.Reply
	select {
	case a = <-answers:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", core.ErrUnavailable, ctx.Err())
	}
	lost, err := g.extended(a, duration)
	tellLost(lost)
	return err
}

// extended deals with the answer to renew.lua.
func (g *grant) extended(a *script.Reply, duration time.Duration) (lost []*grant, err error) {
	l, c := g.lease, g.lease.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case g.lost != nil:
		return nil, g.lost
	case g.over:
		return nil, core.ErrNotHeld
	}
	err = l.noteRenewal(a, duration)
	if errors.Is(err, errNotOurs) {
		err = fmt.Errorf("%w: the server has it no more", core.ErrLost)
		return l.end(err), err
	}
	if err != nil {
		return nil, script.Failure(err)
	}
	if !c.shares() {
		l.duration = duration // others who share it have not asked for that
	}
	if g.req.Fixed {
		g.limit.Store(0)
		g.limitTo(c.e.instant(a.Sent) + duration - c.e.margin(duration))
		if g.req.MaxHold > 0 {
			g.limitTo(after(g.since, g.req.MaxHold))
		}
		l.reschedule()
	}
	return nil, nil
}

// Release implements core.Grant.
func (g *grant) Release(patience time.Duration) (waiters int, err error) {
	l, c := g.lease, g.lease.c
	c.shard.mu.Lock()
	waiters = c.waiting()
	switch {
	case g.lost != nil:
		err = g.lost
	case g.over:
		err = core.ErrNotHeld
	case g.Expired():
		err = fmt.Errorf("%w: %s", core.ErrLost, g.whyOver(c.e.now()))
		l.leave(g, err)
		if l.isUnused() {
			l.end(err)
		}
	}
	if err != nil {
		c.unlock()
		return waiters, err
	}
	if c.shares() {
		return waiters, g.leaveShared(patience)
	}
	linger := time.Duration(0)
	if !g.unused {
		linger = g.req.MinHold - (c.e.now() - g.since)
	}
	if linger <= 0 && c.pass(l) {
		g.over = true
		c.e.inactive()
		c.unlock()
		return waiters, nil
	}
	deadline := g.deadline()
	if linger <= 0 && c.waiters.n > 0 {
		l.drop(nil)
		c.ask(&script.Predecessor{ID: l.id, Lease: l.duration})
		c.unlock()
		return waiters, nil
	}
	l.yield(nil)
	c.releasing, c.asked = true, c.e.now()
	c.unlock()
	return waiters, l.release(g, patience, max(linger, 0), deadline)
}

// leaveShared ends a share in a lease, and the lease with the last one. The shard is locked, and is
// unlocked by it.
func (g *grant) leaveShared(patience time.Duration) error {
	l, c := g.lease, g.lease.c
	deadline := g.deadline()
	first := l.grants.First() == g
	l.leave(g, nil)
	if !l.isUnused() {
		if first {
			l.reschedule()
		}
		c.unlock()
		return nil
	}
	l.yield(nil)
	c.unlock()
	return l.release(g, patience, 0, deadline)
}
