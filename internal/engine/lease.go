package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/script"
)

// A lease is what the server has granted to this process, under one id. It is passed from grant to
// grant within the process as far as its licence goes, or shared by several that read. The shard's
// mutex guards it.
type lease struct {
	c         *cohort
	id        *script.ID
	duration  time.Duration
	granted   instant           // when it came to this process
	grants    list.List[*grant] // who has it: one, or those who share it, the earliest first
	mode      core.Mode         // Read from a downgrade on
	confirmed bool              // the server has set the duration; before, the accept window
	over      bool              // released or lost
	contended bool              // others wait for it
	asking    bool              // the server, whether others may still join

	next, last   int64   // tokens not used yet; one that is shared has only one
	passes       int     // since it is contended
	calledAt     instant // when a message said that others wait
	shareUntil   instant // others may join without asking
	subscription int64   // as long as it is this one by which the process would learn of a writer

	expires atomic.Int64  // instant: exclusive until then
	renewAt instant       // 0: never
	slack   time.Duration // how much earlier it may be
	timer   timer         // for whatever comes first
	timerAt instant       // when that is; 0: not set
}

var errGone = fmt.Errorf("%w: the server has it no more, or for somebody else (deleted, evicted or released by force)", core.ErrLost)

// grant lets a caller have the lease.
func (l *lease) grant(r *core.Request, now instant) *grant {
	g := &grant{lease: l, req: r, token: l.next, since: now}
	l.grants.Push(g)
	l.fit(g)
	l.c.e.active.Add(1)
	return g
}

// fit makes the lease what g asked for.
func (l *lease) fit(g *grant) {
	if l.duration != g.req.Lease {
		l.duration, l.confirmed = g.req.Lease, false
		l.renewAfter(g.since, 0)
	}
	if g.req.MaxHold > 0 {
		g.limitTo(after(g.since, g.req.MaxHold))
	}
	if g.req.Fixed {
		if l.confirmed {
			l.renewAt = 0
			g.limitTo(instant(l.expires.Load()))
		} else {
			g.limitTo(g.since + l.duration)
		}
	}
	l.reschedule()
}

// reschedule sets the timer to what comes first: the deadline, or a renewal, which may be early so
// that it goes out together with others.
func (l *lease) reschedule() {
	at, slack := l.deadline(), time.Duration(0)
	if l.renewAt != 0 && l.renewAt < at {
		at, slack = l.renewAt, l.slack
	}
	if at != l.timerAt {
		l.timerAt = at
		l.c.e.schedule.set(&l.timer, at, slack)
	}
}

// deadline is when the first of those who have the lease is over unless it is renewed.
func (l *lease) deadline() instant {
	if l.grants.First() == nil {
		return instant(l.expires.Load())
	}
	return l.grants.First().deadline()
}

// renewAfter sets the next renewal, which may be somewhat early.
func (l *lease) renewAfter(t instant, d time.Duration) {
	l.renewAt, l.slack = max(t+d, 1), d/4 // 0 would be never
}

// due is called when the timer is: it ends a lease whose time is over, or one's share in it, and says
// whether the lease is to be renewed.
func (l *lease) due() (renew bool, lost []*grant) {
	c := l.c
	c.shard.mu.Lock()
	defer c.unlock()
	if l.over {
		return false, nil
	}
	l.timerAt = 0
	now := c.e.now()
	for g := l.grants.First(); g != nil && now >= g.deadline(); g = l.grants.First() {
		l.leave(g, fmt.Errorf("%w: %s", core.ErrLost, g.whyOver(now)))
		lost = append(lost, g)
	}
	if now >= instant(l.expires.Load()) || len(lost) > 0 && l.isUnused() {
		l.drop(nil)
		l.forget()
		c.ask(nil)
		return false, lost
	}
	if l.renewAt != 0 && now >= l.renewAt-l.slack {
		// The next try starts whether or not this one has been answered.
		l.renewAfter(now, l.pace(now))
		renew = true
	}
	l.reschedule()
	return renew, lost
}

// isFresh reports whether enough is left of the lease to let others have it.
func (l *lease) isFresh(now instant) bool {
	whole := script.AcceptWindow
	if l.confirmed {
		whole = l.duration
	}
	return instant(l.expires.Load())-now >= whole/2
}

// pace is how long a renewal may take before the next one is tried: a sixth of the lease, less if less
// is left of it.
func (l *lease) pace(now instant) time.Duration {
	pace := min(l.duration/6, max((instant(l.expires.Load())-now)/4, minPace))
	if l.asking {
		return min(pace, script.PollInterval) // others wait for the answer
	}
	return pace
}

const minPace = 10 * time.Millisecond

// patience is how long a renewal by the watchdog may take: longer than the next one waits for it, as an
// answer is good until the lease ends, and a server may be further away than the tries are apart.
func (l *lease) patience(now instant) time.Duration {
	left := max(instant(l.expires.Load())-now, minPace)
	return min(left, max(2*l.pace(now), time.Second))
}

// asks is the duration to ask for when renewing now.
func (l *lease) asks() time.Duration {
	if g := l.grants.First(); g != nil && g.req.Fixed {
		return max(g.since+l.duration-l.c.e.now(), time.Millisecond)
	}
	return l.duration
}

// renewalDue prepares a renewal by the watchdog.
func (l *lease) renewalDue() *script.Call {
	c := l.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	duration := l.asks()
	q := c.inquiry()
	var k *script.Call
	k = l.renewal(c.e.sender.Context(), duration, func(a *script.Reply) { k.AfterBatch = l.renewed(a, duration, q) })
	k.Timeout = l.patience(c.e.now())
	return k
}

// renewal prepares a run of renew.lua.
func (l *lease) renewal(ctx context.Context, duration time.Duration, done func(*script.Reply)) *script.Call {
	n := script.Renew{Keys: &l.c.name, ID: l.id, Lease: duration}
	return n.Call(ctx, l.c.e.scripts, done)
}

// renewed deals with the answer to renew.lua, which was asked for duration. What it returns tells those
// who have the lease, when all answers that came together have been dealt with.
func (l *lease) renewed(a *script.Reply, duration time.Duration, q inquiry) (tell func()) {
	c := l.c
	c.shard.mu.Lock()
	if l.over {
		c.unlock()
		return nil
	}
	defer c.unlock()
	err := l.noteRenewal(a, duration)
	if errors.Is(err, errNotOurs) {
		lost := l.end(errGone)
		return func() { tellLost(lost) }
	}
	grants := slices.Collect(l.grants.All())
	switch {
	case !c.shares() || c.lease != l:
	case err == nil:
		l.shared(c.e.instant(a.Sent), q)
	case c.waiters.n > 0: // they ask for themselves, and are told what is wrong
		l.asking = false
		l.close()
		if c.request != nil {
			c.request.trouble = err // for those whose time is over before it is answered
		}
	}
	return func() {
		for _, g := range grants {
			g.req.Events.Renewed(script.Failure(err))
		}
	}
}

var errNotOurs = fmt.Errorf("%w by this id", core.ErrNotHeld)

// noteRenewal moves the deadline if a says that the lease was renewed for duration.
func (l *lease) noteRenewal(reply *script.Reply, duration time.Duration) error {
	a, err := reply.Renewed()
	switch {
	case err != nil:
		return err
	case a.Outcome == script.NotHeld:
		return errNotOurs
	}
	e := l.c.e
	sent := e.instant(reply.Sent)
	l.confirmed = true
	l.expires.Store(max(l.expires.Load(), int64(sent+duration-e.margin(duration))))
	l.renewAfter(sent, duration/3)
	if g := l.grants.First(); g != nil && g.req.Fixed {
		l.renewAt = 0
	}
	l.isContended(a.Contended || sent < l.calledAt)
	l.reschedule()
	return nil
}

// isContended notes whether other processes wait; if they have come just now, it counts the passes
// from now on.
func (l *lease) isContended(contended bool) {
	if contended != l.contended {
		l.contended, l.passes = contended, 0
	}
	if contended {
		l.shareUntil = 0
	}
}

// end takes the lease off its cohort as lost and has the server forget it. Those who had it are to be
// told with tellLost, without locks held.
func (l *lease) end(cause error) []*grant {
	lost := l.drop(cause)
	l.forget()
	l.c.ask(nil)
	return lost
}

// forget has the server release the lease, in the background.
func (l *lease) forget() { l.c.e.cancel(l.c.name, l.unwanted()) }

func (l *lease) unwanted() unwanted {
	return unwanted{id: l.id.String(), lease: l.duration, mark: l.id.Copied()}
}

// reads reports whether others may read as well.
func (l *lease) reads() bool { return l.mode == core.Read }

// isUnused reports whether nobody has the lease and nobody waits for a share in it.
func (l *lease) isUnused() bool {
	return l.grants.First() == nil && !(l.c.shares() && l.c.lease == l && l.c.waiters.n > 0)
}

// drop ends the lease on this side; cause is why if it is lost. It returns who had it.
func (l *lease) drop(cause error) (had []*grant) {
	l.c.e.ids.remove(l.id)
	return l.yield(cause)
}

// yield is drop for a lease that is to be released. Its id stays known until the answer: a late push of its
// grant must never be taken for nobody's, and overtake the release.
func (l *lease) yield(cause error) (had []*grant) {
	for g := l.grants.First(); g != nil; g = l.grants.First() {
		l.leave(g, cause)
		had = append(had, g)
	}
	l.over = true
	if l.c.lease == l {
		l.c.lease = nil
	}
	l.c.crowd.knows(-1)
	l.c.e.schedule.remove(&l.timer)
	return had
}

// leave ends one caller's share in the lease; cause is why if it is lost.
func (l *lease) leave(g *grant, cause error) {
	l.grants.Remove(g)
	g.lost, g.over = cause, true
	l.c.e.inactive()
}

// release runs release.lua, after yield. Callers of this process that come meanwhile wait for its
// answer.
func (l *lease) release(g *grant, patience, linger time.Duration, deadline instant) error {
	c, e := l.c, l.c.e
	answers := make(chan error, 1)
	r := script.Release{Keys: &c.name, ID: l.id, Read: l.reads(), Linger: linger, Mark: l.id.Copied()}
	if g.keepsPlace() {
		r.Place = g.req.Ticket
	}
	k := r.Call(e.sender.Context(), e.scripts, func(a *script.Reply) { answers <- l.released(a, g, deadline) })
	k.Limit = patience
	begun := time.Now()
	if patience < e.cfg.Unlock {
		e.sender.Start(k) // the caller is in a hurry
	} else if e.sender.Inline(k, true) {
		return <-answers
	}
	now := time.Now()
	ctx := e.unlocks.Next(now)
	if left := patience - now.Sub(begun); left < e.cfg.Unlock-time.Millisecond {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	select {
	case err := <-answers:
		return err
	case <-ctx.Done():
	}
	return fmt.Errorf("%w: the release is not confirmed after %v", core.ErrUnavailable, patience)
}

// released deals with the answer to release.lua.
func (l *lease) released(reply *script.Reply, g *grant, deadline instant) error {
	c, e := l.c, l.c.e
	e.ids.remove(l.id)
	outcome, err := reply.Released()
	err = script.Failure(err)
	switch {
	case err != nil:
		u := l.unwanted()
		if g.keepsPlace() {
			u.ticket, u.endPlace = g.req.Ticket, true
		}
		e.cancel(c.name, u)
	case outcome == script.More:
		e.settle(c.name)
	case outcome == script.NotHeld && e.now() >= deadline:
		err = fmt.Errorf("%w: the lease ran out before it was released", core.ErrLost)
	case outcome == script.NotHeld && l.id.Releases() == 1: // else an earlier copy may have released it
		err = errGone
	}
	c.shard.mu.Lock()
	c.releasing = false
	c.ask(nil)
	c.unlock()
	return err
}
