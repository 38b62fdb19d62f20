package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/judge"
	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
)

// A plan is everything that is decided before a call.
type plan struct {
	kind      Kind
	key       string
	wait      time.Duration
	weight    int
	lease     time.Duration // WithLease; 0: the usual one
	fixed     time.Duration // WithFixedLease; 0: the lease is renewed
	work      time.Duration
	downgrade bool
}

// plan makes a random plan.
func (w *worker) plan(kind Kind) *plan {
	p := &plan{kind: kind, wait: w.Patience}
	switch x := rand.Float64(); {
	case x < 0.25:
		p.wait = 0
	case x < 0.4:
		p.wait = 10*time.Millisecond + rand.N(290*time.Millisecond)
	}
	switch x := rand.Float64(); {
	case x < 0.6:
		p.work = rand.N(5 * time.Millisecond)
	case x < 0.94:
		p.work = rand.N(40 * time.Millisecond)
	case x < 0.97:
		p.work = w.Lease * 2 / 3 // with renewals
	default: // the lease ends during the work
		p.fixed = w.Lease / 4
		p.work = p.fixed + 50*time.Millisecond
	}
	switch kind {
	case Read:
		if p.key = lockmw.Key("document", "1"); rand.IntN(3) == 0 {
			p.kind, p.downgrade = Write, rand.IntN(3) == 0
		}
	case Permit:
		p.key, p.weight = lockmw.Key("pool", "1"), 1+rand.IntN(2)
	default:
		p.key = lockmw.Key(string(kind), fmt.Sprint(1+rand.IntN(2)))
	}
	return p
}

// A call is one call of Lock with its hold.
type call struct {
	*plan
	w      *worker
	n      int          // negative for the call of an order
	queued atomic.Int64 // a time of the machine
	hold   atomic.Pointer[lockmw.Hold]
	over   atomic.Bool // the end of the hold was reported

	deadline atomic.Int64 // the latest one so far, a time of the machine
}

// call takes a lock, works and releases it.
func (w *worker) call(p *plan) {
	c := &call{plan: p, w: w, n: int(w.calls.Add(1))}
	ctx := c.lock(w.ctx)
	if ctx == nil {
		return
	}
	if work := p.work; p.downgrade {
		pause.For(ctx, work/2)
		c.share(ctx)
		pause.For(ctx, work/2)
	} else {
		pause.For(ctx, work)
	}
	c.unlock(ctx)
}

// hold follows an order to take a key, and holds it until release ends.
func (w *worker) hold(release context.Context, o order) {
	c := &call{plan: &plan{kind: Plain, key: o.Key, wait: o.For, lease: o.Lease}, w: w, n: -o.N}
	if ctx := c.lock(w.ctx); ctx != nil {
		<-release.Done()
		c.unlock(ctx)
	}
}

// event returns a report of the call with the time.
func (c *call) event(name string, at time.Time) *report {
	r := &report{Kind: c.kind, Report: judge.Report{Event: name, Call: c.n, Key: c.key, At: judge.MachineTime(at), Reads: c.kind == Read}}
	if hold := c.hold.Load(); hold != nil {
		r.Token, r.Deadline = hold.Token(), judge.MachineTime(hold.Deadline())
		c.note(r.Deadline)
	}
	return r
}

// note keeps the latest deadline.
func (c *call) note(deadline time.Duration) {
	for had := c.deadline.Load(); int64(deadline) > had && !c.deadline.CompareAndSwap(had, int64(deadline)); {
		had = c.deadline.Load()
	}
}

// lock takes the lock; it returns nil if that fails.
func (c *call) lock(ctx context.Context) context.Context {
	waits := func(_ context.Context, _ lockmw.Attempt, now lockmw.Contention) {
		if now.Position > 0 && c.queued.CompareAndSwap(0, int64(judge.MachineTime(time.Now()))) {
			c.w.report(c.event(judge.Queued, time.Now()))
		}
	}
	opts := []lockmw.Option{lockmw.WithWait(c.wait), lockmw.WithObserver(&lockmw.Observer{
		Contended: waits, Waiting: waits,
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { c.renewed(err) },
	})}
	if c.lease > 0 {
		opts = append(opts, lockmw.WithLease(c.lease))
	}
	if c.fixed > 0 {
		opts = append(opts, lockmw.WithFixedLease(c.fixed))
	}
	if c.weight > 0 {
		opts = append(opts, lockmw.WithWeight(c.weight))
	}
	asked := time.Now()
	inner, hold, err := c.w.kinds[c.kind].Lock(ctx, c.key, opts...)
	now := time.Now()
	stalls := c.w.pace.Delays(asked, now)
	name := judge.Granted
	if err != nil {
		name = judge.Failed
	} else {
		c.hold.Store(hold)
	}
	r := c.event(name, now)
	r.Report = r.Because(err)
	r.Asked, r.Queued, r.Stalls, r.Limited = judge.MachineTime(asked), time.Duration(c.queued.Load()), stalls, c.wait > 0
	if c.wait > 0 {
		r.Late = max(now.Sub(asked)-judge.Sum(stalls)-c.wait, 0)
	}
	if c.weight > 0 {
		r.Weight, r.Permits = c.weight, permits
	}
	if err != nil && !c.mayFail(err) {
		r.Event, r.Refused = wrong, isRefusal(err)
	}
	c.w.report(r)
	if err != nil {
		return nil
	}
	context.AfterFunc(inner, func() { c.lost(inner) })
	return inner
}

// mayFail reports whether a call may return this error.
func (c *call) mayFail(err error) bool {
	return c.w.ctx.Err() != nil || errors.Is(err, lockmw.ErrBusy) && !errors.Is(err, lockmw.ErrDeadlock) ||
		isUnavailable(err) && !isRefusal(err) || errors.Is(err, lockmw.ErrLost)
}

// isRefusal reports whether a server that can be reached refuses what it accepted before, or a script of another kind of lock.
func isRefusal(err error) bool {
	return transport.IsReply(err) && !transport.IsTemporary(err) && !transport.IsFull(err)
}

// isUnavailable reports whether err says that the server does not answer or refuses commands. An answer that no script gives is
// the server's fault.
func isUnavailable(err error) bool {
	return errors.Is(err, lockmw.ErrUnavailable) && !errors.Is(err, transport.ErrMalformed)
}

// renewed reports a renewal by the watchdog.
func (c *call) renewed(err error) {
	if err == nil && c.hold.Load() != nil {
		c.w.report(c.event(judge.Renewed, time.Now()))
	}
}

// lost reports a hold whose context has ended because it was lost.
func (c *call) lost(ctx context.Context) {
	now := time.Now()
	if !errors.Is(context.Cause(ctx), lockmw.ErrLost) || !c.over.CompareAndSwap(false, true) {
		return
	}
	r := c.event(judge.Ended, now)
	r.Lost = true
	deadline := c.hold.Load().Deadline()
	switch wasSet := r.Deadline < time.Duration(c.deadline.Load())-clockSlack; {
	case !now.After(deadline):
		c.lostEarly(now, deadline)
	case !wasSet: // otherwise nobody can have noticed the deadline before the clock was set forward, as after a suspend
		r.Late = c.w.pace.Between(deadline, now)
	}
	c.w.report(r)
}

// clockSlack is how much earlier a deadline may become without the clock having been set.
const clockSlack = 20 * time.Millisecond

func (c *call) lostEarly(now, deadline time.Time) {
	r := c.event(early, now)
	r.Err = fmt.Sprintf("token %d was lost %v before its deadline", r.Token, deadline.Sub(now).Round(time.Millisecond))
	c.w.report(r)
}

// share makes a write hold a read hold.
func (c *call) share(ctx context.Context) {
	c.w.report(c.event(judge.Shared, time.Now()))
	if err := c.w.rw.Downgrade(ctx, c.hold.Load()); err != nil && !c.mayFail(err) {
		c.w.report(c.failed(err))
	}
}

func (c *call) failed(err error) *report {
	r := c.event(wrong, time.Now())
	r.Report, r.Refused = r.Because(err), isRefusal(err)
	return r
}

// unlock ends the hold.
func (c *call) unlock(ctx context.Context) {
	before := time.Now()
	alive, deadline := ctx.Err() == nil, c.hold.Load().Deadline()
	if alive && !before.Before(deadline) { // a process that was stopped comes here when it continues
		r := c.event(judge.Late, before)
		r.Late = before.Sub(deadline)
		c.w.report(r)
	}
	first := c.over.CompareAndSwap(false, true)
	if first {
		c.w.report(c.event(judge.Ended, time.Now()))
	}
	err := c.hold.Load().Unlock()
	now := time.Now()
	switch {
	case err == nil, isUnavailable(err) && !isRefusal(err), errors.Is(err, lockmw.ErrClosed):
	case !errors.Is(err, lockmw.ErrLost):
		c.w.report(c.failed(err))
	case first && now.Before(deadline):
		c.lostEarly(now, deadline)
	}
	r := c.event(judge.Done, now)
	r.Report, r.Scripts = r.Because(err), c.w.budget.spent()
	c.w.report(r)
}
