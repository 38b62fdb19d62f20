package fault

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

var connections = []env.Scenario{
	env.Case("resets every 200 ms lose nothing", resetConnections, env.InRealTime|env.OneServer|env.Shares),
	env.Case("answers delayed by 200 ms lose nothing", lateAnswers, env.InRealTime|env.OneServer|env.Shares),
	env.Case("late answers do not lengthen a hold", lateDeadlines, env.InRealTime|env.OneServer|env.Shares),
	env.Case("delivery of a few bytes at a time loses nothing", slicedBytes, env.InRealTime|env.OneServer|env.Shares),
	env.Case("killing subscriptions every 100 ms does not delay waiters", killedSubscriptions, env.InRealTime|env.Alone),
	env.Case("a waiter gets its grant immediately although its subscription is killed just before", killedAtGrant, env.InRealTime|env.Alone|env.Sample),
}

// proxied returns n clients that connect through one proxy. Its faults make commands slow, so Unlock gets a long timeout.
func proxied(e *env.Env, n int) ([]*env.Client, *redistest.Proxy) {
	e.T.Helper()
	p := e.Server.NewProxy(e.TB)
	clients := make([]*env.Client, n)
	for i := range clients {
		clients[i] = e.ClientOver(func(o *redis.Options) {
			p.Use(o)
			o.ContextTimeoutEnabled = i%2 == 1
			// On a busy machine, many attempts meet a fault.
			o.MaxRetries, o.MaxRetryBackoff = 10, 50*time.Millisecond
		}, lockmw.WithUnlockTimeout(env.Patience))
	}
	return clients, p
}

// A kept hold is renewed by the watchdog and must survive the scenario's faults.
type kept struct {
	*recording.Held
	ctx     context.Context
	renewed atomic.Int32 // successful renewals
}

// keep takes a lock for longer than its lease.
func keep(e *env.Env, c *env.Client, lease time.Duration) *kept {
	e.T.Helper()
	k := new(kept)
	k.ctx, k.Held = e.Lock(c, e.Key("task"), lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) {
			if err == nil {
				k.renewed.Add(1)
			}
		},
	}))
	return k
}

// outlive waits until each hold has outlived its lease: a renewal is due after each third of it. Then it unlocks the holds.
func outlive(e *env.Env, holds ...*kept) {
	e.T.Helper()
	from := make([]int32, len(holds))
	for i, k := range holds {
		from[i] = k.renewed.Load()
	}
	e.Eventually(env.Patience, func() string {
		for i, k := range holds {
			if n := k.renewed.Load() - from[i]; n < 4 && k.ctx.Err() == nil {
				return fmt.Sprintf("%d renewals", n)
			}
		}
		return ""
	})
	for _, k := range holds {
		if err := k.ctx.Err(); err != nil {
			e.T.Errorf("the hold has ended: %v", context.Cause(k.ctx))
		}
		e.Unlock(k.ctx, k.Held)
	}
}

// every calls do n times, at intervals of d. The intervals are longer on a busy machine.
func every(e *env.Env, d time.Duration, n int, do func()) {
	for range n {
		env.Wait(e.Pace, nil, d)
		do()
	}
}

func resetConnections(e *env.Env) {
	clients, p := proxied(e, 3)
	lease := e.Ample(600 * time.Millisecond)
	long := keep(e, clients[0], lease)
	load := e.Load(clients, 3, 4)
	const pause = 200 * time.Millisecond
	every(e, pause, int(lease/pause), func() { // long enough to hit renewals
		load.AwaitGrants() // otherwise connections might not live long enough to be used
		p.Reset()
	})
	outlive(e, long)
	// The push, the next poll and its repetition may all be lost.
	load.End(50, 3*env.PollInterval)
}

func lateAnswers(e *env.Env) {
	const latency, jitter = 200 * time.Millisecond, 100 * time.Millisecond
	clients, p := proxied(e, 3)
	// These two clients connect now. The third one connects later, which takes several round trips.
	brief := e.Ample(600 * time.Millisecond)
	outlive(e, keep(e, clients[0], brief), keep(e, clients[1], brief))
	p.Delay(latency, jitter)
	lease := e.Ample(time.Second) // a sixth of it is longer than a round trip
	long := []*kept{keep(e, clients[0], lease), keep(e, clients[1], lease)}
	load := e.Load(clients, 2, 3)
	outlive(e, long...)
	// If the answer to the acquire overtakes the push, a poll follows.
	load.End(5, env.PollInterval+3*(latency+jitter)+e.Soon)
	p.Restore()
}

func lateDeadlines(e *env.Env) {
	clients, p := proxied(e, 1)
	c, other := clients[0], e.Client()
	outlive(e, keep(e, c, e.Ample(600*time.Millisecond))) // opens connections
	key := e.Key("user")
	ctx, held := e.Lock(other, key)
	w := e.Wait(c, key)
	listening(e, key, 1)
	p.Delay(200*time.Millisecond, 0) // more than the margin between a hold and its lease

	lease := e.Ample(time.Second)
	long := keep(e, c, lease)
	covered(e, long.Held)
	for i := range int32(2) {
		e.Eventually(env.Patience, func() string {
			if long.renewed.Load() > i {
				return ""
			}
			return "not renewed"
		})
		covered(e, long.Held)
	}
	if err := long.Extend(long.ctx, 2*lease); err != nil {
		e.T.Errorf("Extend: %v", err)
	}
	covered(e, long.Held)
	e.Unlock(long.ctx, long.Held)

	e.Unlock(ctx, held)
	ctx, held = w.Gets(env.PollInterval + e.Soon)
	covered(e, held)
	e.Unlock(ctx, held)
	p.Restore()
}

// covered checks that the server keeps the lock at least until the hold's deadline.
func covered(e *env.Env, h *recording.Held) {
	e.T.Helper()
	deadline := h.Deadline()
	left := e.Server.Admin.PTTL(e.Ctx, e.Server.RedisKey(h.Key())).Val()
	if uncovered := deadline.Sub(time.Now().Add(left)); uncovered > time.Millisecond {
		e.T.Errorf("the hold lasts %v longer than the server's lease", uncovered)
	}
}

func slicedBytes(e *env.Env) {
	clients, p := proxied(e, 2)
	// Load the scripts first: a few bytes at a time, that takes longer than a lease.
	e.Load(clients, 1, 4).End(50, env.PollInterval+e.Soon)
	lease := e.Ample(600 * time.Millisecond)
	outlive(e, keep(e, clients[0], lease))
	p.Slice()
	long := keep(e, clients[0], lease)
	load := e.Load(clients, 1, 3)
	outlive(e, long)
	load.End(50, env.PollInterval+e.Soon)
	p.Restore()
}

func killedSubscriptions(e *env.Env) {
	clients := make([]*env.Client, 3)
	for i := range clients {
		clients[i] = e.Client(lockmw.WithLocalPasses(0)) // every grant is pushed
	}
	load := e.Load(clients, 2, 6)
	var killed int64
	every(e, 100*time.Millisecond, 20, func() {
		n, err := e.Server.Admin.ClientKillByFilter(e.Ctx, "TYPE", "pubsub").Result()
		if err != nil {
			e.T.Errorf("CLIENT KILL: %v", err)
		}
		killed += n
	})
	load.End(50, env.PollInterval+e.Soon)
	if killed < 20 {
		e.T.Errorf("only %d subscriptions were killed", killed)
	}
	// Clients must subscribe again; otherwise only polls would find grants.
	e.Eventually(env.Patience, func() string {
		channels, err := e.Server.Admin.PubSubChannels(e.Ctx, e.Server.Prefix+":*").Result()
		if err != nil || len(channels) != len(clients) {
			return fmt.Sprintf("%d subscriptions, %v", len(channels), err)
		}
		return ""
	})
}

func killedAtGrant(e *env.Env) {
	a, b, key := e.Client(), e.Client(), e.Key("item")
	for range 3 {
		ctx, held := e.Lock(a, key)
		w := e.Wait(b, key)
		listening(e, key, 1)
		e.Eventually(env.Patience, func() string { // b may not be back from the last round
			if e.Server.Admin.ClientKillByFilter(e.Ctx, "TYPE", "pubsub").Val() == 0 {
				return "no subscriptions"
			}
			return ""
		})
		e.Unlock(ctx, held) // the grant is published without subscribers
		e.Unlock(w.Gets(e.Soon))
	}
}
