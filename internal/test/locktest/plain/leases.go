package plain

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

var leases = []env.Scenario{
	env.Case("the watchdog keeps a hold for several leases", severalLeases, env.Shares),
	env.Case("the hold ends before its lease if the server does not answer", func(e *env.Env) { watchdogFails(e, (*redistest.Wire).Silence) }, env.OnServer|env.OneNode|env.Shares),
	env.Case("the hold ends before its lease if the server is unreachable", func(e *env.Env) { watchdogFails(e, (*redistest.Wire).Cut) }, env.OnServer|env.OneNode|env.Shares),
	env.Case("a failed renewal is repeated in time", renewalRecovers, env.OnServer|env.Shares),
	env.Case("a fixed lease ends the hold and passes the lock on", fixedLease, env.Shares),
	env.Case("a fixed lease can be extended", extended, env.Shares),
	env.Case("the maximum hold ends the hold and passes the lock on", maxHold, env.Shares),
	env.Case("the minimum hold keeps the key taken", minHold, env.Shares),
	env.Case("an expired hold passes the lock on", expired, env.InProcess),
	env.Case("a call waits for the end of a fixed lease with few polls", polledOnce, env.OnServer|env.OneNode|env.Shares|env.Sample),
}

func severalLeases(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("task")
	lease := e.Ample(600 * time.Millisecond)
	ctx, held := e.Lock(c, key, lockmw.WithLease(lease))
	for range 4 {
		time.Sleep(lease) // work longer than the lease
		if err := ctx.Err(); err != nil {
			e.T.Fatalf("the hold has ended: %v", context.Cause(ctx))
		}
		e.Busy(other, key)
	}
	e.Unlock(ctx, held)
	e.Free(other, key)
}

func watchdogFails(e *env.Env, fault func(*redistest.Wire)) {
	const margin = 200 * time.Millisecond
	lease := e.Ample(900 * time.Millisecond)
	c, other, key := e.Client(lockmw.WithClockMargin(margin)), e.Client(), e.Key("task")
	renewed := make(chan struct{}, 100)
	ctx, held := e.Lock(c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(context.Context, lockmw.Attempt, error) { renewed <- struct{}{} },
	}))
	env.Next(e, renewed)
	fault(c.Wire)
	start := time.Now()
	left := e.Server.Admin.PTTL(e.Ctx, e.Server.RedisKey(key)).Val() // a renewal under way may still extend it
	lasts := time.Now().Add(left)
	if !e.Ends(ctx) {
		return
	}
	ended := time.Now()
	if missing := held.Deadline().Add(margin).Sub(lasts); missing > time.Millisecond {
		e.T.Errorf("the server's lease outlasts the hold by the margin less %v", missing)
	}
	if d := held.Deadline(); ended.Before(d) || e.Pace.Between(d, ended) > e.Soon {
		e.T.Errorf("the context ended %v after its deadline", ended.Sub(d))
	}
	if lasted := held.Deadline().Sub(start); lasted > lease {
		e.T.Errorf("the hold lasted %v after the last renewal, longer than a lease", lasted)
	}
	e.Is("the cause of the context's end", context.Cause(ctx), lockmw.ErrLost)
	_, next, err := e.Rec.Lock(e.Ctx, other.Rival, key, lockmw.WithWait(lease+env.PollInterval+e.Soon))
	if err != nil {
		e.T.Fatalf("the next caller: %v", err)
	}
	c.Wire.Restore()
	e.Is("Unlock of a lost hold", held.Unlock(), lockmw.ErrLost)
	e.Busy(other, key)
	e.Unlock(e.Ctx, next)
}

func renewalRecovers(e *env.Env) {
	lease := e.Ample(1200 * time.Millisecond)
	// After as many failed dials as its pool has connections, counted over its lifetime, go-redis pauses for up to a second. This
	// lease is shorter.
	c, key := e.ClientOver(func(o *redis.Options) { o.PoolSize = 1000 }), e.Key("task")
	ctx, held := e.Lock(c, key, lockmw.WithLease(lease))
	for range 3 {
		e.Pass(lease / 6)
		c.Wire.Cut()
		// During the outage a renewal is due, a third of the lease after the last one. It times out after another third, or after
		// a second if that is longer.
		e.Pass(lease * 8 / 15)
		c.Wire.Restore()
		before := held.Deadline()
		e.Eventually(lease/3, func() string {
			if held.Deadline().After(before) {
				return ""
			}
			return "the lease was not renewed"
		})
	}
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	e.Unlock(ctx, held)
}

func fixedLease(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	lease := e.Ample(600 * time.Millisecond)
	start := time.Now()
	ctx, held := e.Lock(c, key, lockmw.WithFixedLease(lease))
	if d := held.Deadline(); d.After(time.Now().Add(lease)) || d.Before(start) {
		e.T.Errorf("the deadline is %v away", time.Until(d))
	}
	w := e.Wait(e.Client(), key)
	e.Lost(ctx, held)
	if took := e.Pace.Since(start); took > lease+e.Soon {
		e.T.Errorf("a fixed lease of %v lasted %v", lease, took)
	}
	e.Unlock(w.Gets(e.Soon))
	if took := e.Pace.Between(start, w.At); took > lease+e.Soon {
		e.T.Errorf("the next caller ran after %v; the lease was %v", took, lease)
	}
}

func extended(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	lease := e.Ample(600 * time.Millisecond)
	ctx, held := e.Lock(c, key, lockmw.WithFixedLease(lease))
	before := held.Deadline()
	for range 5 {
		time.Sleep(lease / 3) // work between two extensions
		if err := held.Extend(ctx, lease); err != nil {
			e.T.Fatal(err)
		}
	}
	if d := held.Deadline(); !d.After(before.Add(lease)) {
		e.T.Errorf("the deadline moved by %v", d.Sub(before))
	}
	e.Is("a lease that is too short", held.Extend(ctx, env.MinLease-1), lockmw.ErrInvalidOption)
	e.Busy(c, key)
	e.Lost(ctx, held)
	e.Is("Extend after Unlock", held.Extend(e.Ctx, lease), lockmw.ErrNotHeld)
	e.Free(c, key)
}

func maxHold(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	lease := e.Ample(600 * time.Millisecond)
	most := lease + lease/2
	start := time.Now()
	ctx, held := e.Lock(c, key, lockmw.WithMaxHold(most), lockmw.WithLease(lease))
	w := e.Wait(e.Client(), key)
	e.Lost(ctx, held)
	if took := time.Since(start); took < most-most/10 || e.Pace.Since(start) > most+e.Soon {
		e.T.Errorf("a hold with a maximum of %v lasted %v", most, took)
	}
	e.Unlock(w.Gets(env.PollInterval + e.Soon))
}

func minHold(e *env.Env) {
	c, other, third, key := e.Client(), e.Client().Warm(), e.Client().Warm(), e.Key("task")
	least := e.Ample(400 * time.Millisecond)
	start := time.Now()
	ctx, held := e.Lock(c, key, lockmw.WithMinHold(least))
	e.Unlock(ctx, held)
	e.Busy(other, key)
	e.Unlock(e.Wait(third, key).Gets(least + env.PollInterval + e.Soon))
	if took := time.Since(start); took < least {
		e.T.Errorf("the key was free after %v", took)
	}
}

func expired(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	ctx, held := e.Lock(c, key)
	w := e.Wait(c, key)
	e.Rec.Forfeit()
	e.Local.Expire(key)
	e.Lost(ctx, held)
	e.Unlock(w.Gets(e.Soon))
}

// polledOnce waits for the end of a fixed lease that is about to expire.
func polledOnce(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("task")
	ctx, held := e.Lock(other, key, lockmw.WithFixedLease(env.MinLease))
	e.Pass(env.MinLease - 15*time.Millisecond)
	c.Wire.Record()
	w := e.Call(e.Ctx, c.Rival, key)
	e.Unlock(w.Gets(e.Soon))
	e.Lost(ctx, held)
	asked := 0
	for _, command := range c.Wire.Sent() {
		if command.IsScript() && command.Concerns(key) {
			asked++
		}
	}
	// These are the acquire, a poll once subscribed, the poll and the release. Each may also have been resent as text.
	if asked > 8 {
		e.T.Errorf("%d commands were sent", asked)
	}
}
