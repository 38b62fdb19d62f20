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
	since    time.Time
	lease    time.Duration // how much is left after a renewal
	deadline time.Time     // zero: none, since the process that renews it is the one that keeps it
	limit    *time.Timer   // ends the hold at its deadline
	over     bool
	lost     bool
}

// grant makes e held by r; l.mu is held.
func (l *Locks) grant(e *entry, r *core.Request) *grant {
	if r.Mode != core.Read || l.token == 0 {
		l.token++ // readers carry the token of the last writer
	}
	g := &grant{locks: l, req: r, token: l.token, entry: e, since: time.Now(), lease: r.Lease}
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
	if g.limit != nil {
		g.limit.Stop()
	}
	if !g.deadline.IsZero() {
		g.limit = time.AfterFunc(time.Until(g.deadline), g.expire)
	}
}

// expire ends the hold as lost if its deadline has passed; an Extend may have moved it.
func (g *grant) expire() {
	g.locks.mu.Lock()
	ended := !g.over && g.isPast()
	if ended {
		g.locks.end(g, true)
	}
	g.locks.mu.Unlock()
	if ended {
		g.req.Events.Lost(fmt.Errorf("%w: its time ran out", core.ErrLost))
	}
}

func (g *grant) isPast() bool { return !g.deadline.IsZero() && !time.Now().Before(g.deadline) }

// end takes g off its key and lets others in; l.mu is held.
func (l *Locks) end(g *grant, lost bool) {
	if g.over {
		return
	}
	g.over, g.lost = true, lost
	if g.limit != nil {
		g.limit.Stop()
	}
	e := g.entry
	for i, other := range e.holds {
		if other == g {
			e.holds = append(e.holds[:i], e.holds[i+1:]...)
			break
		}
	}
	if rest := time.Until(g.since.Add(g.req.MinHold)); rest > 0 && !lost {
		e.kept = true
		time.AfterFunc(rest, func() { l.unkeep(e, g.req.Mode) })
		return
	}
	l.settle(e, g.req.Mode)
}

// unkeep frees a key whose minimum hold is over.
func (l *Locks) unkeep(e *entry, after core.Mode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.kept = false
	l.settle(e, after)
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
	if g.over || g.isPast() {
		return core.ErrLost
	}
	g.lease = lease
	g.setDeadline()
	return nil
}

// Release implements core.Grant.
func (g *grant) Release(time.Duration) (int, error) {
	g.locks.mu.Lock()
	defer g.locks.mu.Unlock()
	waiters := len(g.entry.waiting)
	switch {
	case g.lost:
		return waiters, core.ErrLost
	case g.over:
		return waiters, core.ErrNotHeld
	}
	g.locks.end(g, false)
	return waiters, nil
}
