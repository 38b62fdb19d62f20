package locktest

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

const minLease = 100 * time.Millisecond // that WithLease allows

var leases = []scenario{
	{"a hold of ten leases under the watchdog", tenLeases, shares},
	{"the hold ends before its lease when nothing is answered", func(e *env) { e.watchdogFails((*client).silence) }, server | shares},
	{"the hold ends before its lease when nothing is reached", func(e *env) { e.watchdogFails((*client).cut) }, server | shares},
	{"a failed renewal is made up for", renewalRecovers, server | shares},
	{"a fixed lease ends the hold and passes the lock on", fixedLease, shares},
	{"a fixed lease can be extended", extended, shares},
	{"the maximum hold ends the hold and passes the lock on", maxHold, shares},
	{"the minimum hold keeps the key taken", minHold, shares},
	{"an expired hold passes the lock on", expired, inProc},
	{"a lease that runs out is asked for once it has", polledOnce, server | shares | sample},
}

func (c *client) silence() { c.wire.Silence() }
func (c *client) cut()     { c.wire.Cut() }

func tenLeases(e *env) {
	c, other, key := e.client(), e.client(), e.key("task")
	const lease = 500 * time.Millisecond
	ctx, held := e.lock(c, key, lockmw.WithLease(lease))
	for range 10 {
		time.Sleep(lease) // the work that takes so long
		if err := ctx.Err(); err != nil {
			e.t.Fatalf("the hold has ended: %v", context.Cause(ctx))
		}
		e.busy(other, key)
	}
	e.unlock(ctx, held)
	e.free(other, key)
}

func (e *env) watchdogFails(fault func(*client)) {
	const lease, margin = 900 * time.Millisecond, 200 * time.Millisecond
	c, other, key := e.client(lockmw.WithClockMargin(margin)), e.client(), e.key("task")
	renewed := make(chan struct{}, 100)
	ctx, held := e.lock(c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(context.Context, lockmw.Attempt, error) { renewed <- struct{}{} },
	}))
	next(e, renewed)
	fault(c)
	start := time.Now()
	left := e.admin.PTTL(e.ctx, e.redisKey(key)).Val() // at least: what is sent now still extends it if the server hears it
	lasts := time.Now().Add(left)
	if !e.ends(ctx) {
		return
	}
	ended := time.Now()
	if missing := held.Deadline().Add(margin).Sub(lasts); missing > time.Millisecond {
		e.t.Errorf("the server's lease lasts %v less than the margin longer than the hold", missing)
	}
	if d := held.Deadline(); ended.Before(d) || e.pace.between(d, ended) > e.soon {
		e.t.Errorf("the context ended %v after its deadline", ended.Sub(d))
	}
	if took := ended.Sub(start); took > lease {
		e.t.Errorf("the context ended %v after the last renewal, more than a lease", took)
	}
	e.is("the cause of the context's end", context.Cause(ctx), lockmw.ErrLost)
	_, next, err := e.rec.Lock(e.ctx, other.rival, key, lockmw.WithWait(lease+pollInterval+e.soon))
	if err != nil {
		e.t.Fatalf("the next caller: %v", err)
	}
	c.wire.Restore()
	e.is("Unlock of a lost hold", held.Unlock(), lockmw.ErrLost)
	e.busy(other, key)
	e.unlock(e.ctx, next)
}

func renewalRecovers(e *env) {
	const lease = 900 * time.Millisecond
	// After as many failed dials as its pool has connections, in all its life, a client of go-redis does
	// not dial for up to a second, be the server back or not: longer than this lease.
	c, key := e.clientOver(func(o *redis.Options) { o.PoolSize = 1000 }), e.key("task")
	ctx, held := e.lock(c, key, lockmw.WithLease(lease))
	for range 3 {
		c.wire.Cut()
		// An outage that is shorter than the lease. It may have begun a third of one after the last renewal,
		// and go-redis pauses for 100 ms between two dials.
		time.Sleep(lease / 3)
		c.wire.Restore()
		before := held.Deadline()
		e.eventually(lease/2, func() string {
			if held.Deadline().After(before) {
				return ""
			}
			return "the lease is not renewed"
		})
	}
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	e.unlock(ctx, held)
}

func fixedLease(e *env) {
	c, key := e.client(), e.key("task")
	const lease = 300 * time.Millisecond
	start := time.Now()
	ctx, held := e.lock(c, key, lockmw.WithFixedLease(lease))
	if d := held.Deadline(); d.After(time.Now().Add(lease)) || d.Before(start) {
		e.t.Errorf("the deadline is %v away", time.Until(d))
	}
	w := e.wait(e.client(), key)
	e.lost(ctx, held)
	if took := e.pace.since(start); took > lease+e.soon {
		e.t.Errorf("a fixed lease of %v took %v", lease, took)
	}
	e.unlock(w.gets(e.soon))
	if took := e.pace.between(start, w.at); took > lease+e.soon {
		e.t.Errorf("the next caller ran after %v, the lease was %v", took, lease)
	}
}

func extended(e *env) {
	c, key := e.client(), e.key("task")
	const lease = 300 * time.Millisecond
	ctx, held := e.lock(c, key, lockmw.WithFixedLease(lease))
	before := held.Deadline()
	for range 5 {
		time.Sleep(lease / 3) // the work between two extensions
		if err := held.Extend(ctx, lease); err != nil {
			e.t.Fatal(err)
		}
	}
	if d := held.Deadline(); !d.After(before.Add(lease)) {
		e.t.Errorf("the deadline moved by %v", d.Sub(before))
	}
	e.is("a lease that is too short", held.Extend(ctx, minLease-1), lockmw.ErrInvalidOption)
	e.busy(c, key)
	e.lost(ctx, held)
	e.is("Extend after Unlock", held.Extend(e.ctx, lease), lockmw.ErrNotHeld)
	e.free(c, key)
}

func maxHold(e *env) {
	c, key := e.client(), e.key("task")
	const most = 500 * time.Millisecond
	start := time.Now()
	ctx, held := e.lock(c, key, lockmw.WithMaxHold(most), lockmw.WithLease(300*time.Millisecond))
	w := e.wait(e.client(), key)
	e.lost(ctx, held)
	if took := time.Since(start); took < most-most/10 || e.pace.since(start) > most+e.soon {
		e.t.Errorf("a hold of at most %v took %v", most, took)
	}
	e.unlock(w.gets(pollInterval + e.soon))
}

func minHold(e *env) {
	c, key := e.client(), e.key("task")
	const least = 400 * time.Millisecond
	start := time.Now()
	ctx, held := e.lock(c, key, lockmw.WithMinHold(least))
	e.unlock(ctx, held)
	e.busy(e.client(), key)
	e.unlock(e.wait(e.client(), key).gets(least + pollInterval + e.soon))
	if took := time.Since(start); took < least {
		e.t.Errorf("the key was free after %v", took)
	}
}

func expired(e *env) {
	c, key := e.client(), e.key("task")
	ctx, held := e.lock(c, key)
	w := e.wait(c, key)
	e.rec.Forfeit()
	e.local.Expire(key)
	e.lost(ctx, held)
	e.unlock(w.gets(e.soon))
}

// polledOnce has a call wait for the end of a lease that nobody renews and that is nearly over.
func polledOnce(e *env) {
	c, other, key := e.warm(e.client()), e.client(), e.key("task")
	ctx, held := e.lock(other, key, lockmw.WithFixedLease(minLease))
	e.pass(minLease - 15*time.Millisecond)
	c.wire.Record()
	w := e.call(e.ctx, c.rival, key)
	e.unlock(w.gets(e.soon))
	e.lost(ctx, held)
	asked := 0
	for _, command := range c.wire.Sent() {
		if command.IsScript() && command.Concerns(key) {
			asked++
		}
	}
	// The acquire, a poll when the subscription is there, the poll, the release, and each may have been
	// sent as text too.
	if asked > 8 {
		e.t.Errorf("%d commands were sent", asked)
	}
}
