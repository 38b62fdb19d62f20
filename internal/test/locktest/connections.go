package locktest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

var connections = []scenario{
	{"reset every 200 ms lose nothing", resetConnections, realTime | shares},
	{"with answers late by 200 ms lose nothing", lateAnswers, realTime | shares},
	{"with late answers lengthen no hold", lateDeadlines, realTime | shares},
	{"that deliver byte by byte lose nothing", slicedBytes, realTime | shares},
	{"of the subscriptions killed every 100 ms keep nobody waiting", killedSubscriptions, realTime | alone},
	{"of a subscription killed at the grant are made up for at once", killedAtGrant, realTime | alone | sample},
}

// proxied returns n clients whose connections run through one proxy.
func (e *env) proxied(n int, opts ...lockmw.ClientOption) ([]*client, *redistest.Proxy) {
	e.t.Helper()
	p := e.server.NewProxy(e.tb)
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = e.clientOver(func(o *redis.Options) {
			p.Use(o)
			o.ContextTimeoutEnabled = i%2 == 1
		}, opts...)
	}
	return clients, p
}

// A kept hold is one under the watchdog that is to survive what the scenario does.
type kept struct {
	*Held
	ctx     context.Context
	renewed atomic.Int32 // how often, successfully
}

// keep takes a lock for longer than the lease.
func (e *env) keep(c *client, lease time.Duration) *kept {
	e.t.Helper()
	k := new(kept)
	k.ctx, k.Held = e.lock(c, e.key("task"), lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) {
			if err == nil {
				k.renewed.Add(1)
			}
		},
	}))
	return k
}

// outlive waits until all of the holds have lived on for longer than their leases: a renewal is due
// after each third of one. Then they are unlocked.
func (e *env) outlive(holds ...*kept) {
	e.t.Helper()
	from := make([]int32, len(holds))
	for i, k := range holds {
		from[i] = k.renewed.Load()
	}
	e.eventually(patience, func() string {
		for i, k := range holds {
			if n := k.renewed.Load() - from[i]; n < 4 && k.ctx.Err() == nil {
				return fmt.Sprintf("%d renewals", n)
			}
		}
		return ""
	})
	for _, k := range holds {
		if err := k.ctx.Err(); err != nil {
			e.t.Errorf("the hold has ended: %v", context.Cause(k.ctx))
		}
		e.unlock(k.ctx, k.Held)
	}
}

// every calls do n times, at intervals of d.
func (e *env) every(d time.Duration, n int, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for range n {
		<-tick.C
		do()
	}
}

func resetConnections(e *env) {
	clients, p := e.proxied(3)
	long := e.keep(clients[0], 1500*time.Millisecond)
	load := e.load(clients, 3, 4)
	e.every(200*time.Millisecond, 10, p.Reset)
	e.outlive(long)
	load.end(50, 2*pollInterval)
}

func lateAnswers(e *env) {
	const latency, jitter = 200 * time.Millisecond, 100 * time.Millisecond
	clients, p := e.proxied(3)
	// These two have connections already. The third one has to make them, which takes several answers.
	e.outlive(e.keep(clients[0], 300*time.Millisecond), e.keep(clients[1], 300*time.Millisecond))
	p.Delay(latency, jitter)
	long := []*kept{e.keep(clients[0], 3*time.Second), e.keep(clients[1], 3*time.Second)}
	load := e.load(clients, 3, 4)
	e.outlive(long...)
	// A push that was overtaken by the answer to the acquire is followed by a poll.
	load.end(5, pollInterval+3*(latency+jitter)+e.soon)
	p.Restore()
}

func lateDeadlines(e *env) {
	clients, p := e.proxied(1)
	c, other := clients[0], e.client()
	e.outlive(e.keep(c, 300*time.Millisecond)) // so that it has connections
	key := e.key("user")
	ctx, held := e.lock(other, key)
	w := e.wait(c, key)
	e.listening(key, 1)
	p.Delay(200*time.Millisecond, 0)

	long := e.keep(c, 1500*time.Millisecond)
	e.covered(long.Held)
	for i := range int32(2) {
		e.eventually(patience, func() string {
			if long.renewed.Load() > i {
				return ""
			}
			return "not renewed"
		})
		e.covered(long.Held)
	}
	if err := long.Extend(long.ctx, 2*time.Second); err != nil {
		e.t.Errorf("Extend: %v", err)
	}
	e.covered(long.Held)
	e.unlock(long.ctx, long.Held)

	e.unlock(ctx, held)
	ctx, held = w.gets(pollInterval + e.soon)
	e.covered(held)
	e.unlock(ctx, held)
	p.Restore()
}

// covered checks that the server keeps the lock until the hold is over here.
func (e *env) covered(h *Held) {
	e.t.Helper()
	deadline := h.Deadline()
	left := e.admin.PTTL(e.ctx, e.redisKey(h.Key())).Val()
	if uncovered := deadline.Sub(time.Now().Add(left)); uncovered > time.Millisecond {
		e.t.Errorf("the hold lasts %v longer than the server's lease", uncovered)
	}
}

func slicedBytes(e *env) {
	clients, p := e.proxied(3)
	// The server gets to know the scripts before: byte by byte they take longer than a lease.
	e.load(clients, 1, 4).end(50, pollInterval+e.soon)
	e.outlive(e.keep(clients[0], 300*time.Millisecond))
	p.Slice()
	long := e.keep(clients[0], time.Second)
	load := e.load(clients, 3, 4)
	e.outlive(long)
	load.end(50, pollInterval+e.soon)
	p.Restore()
}

func killedSubscriptions(e *env) {
	clients := make([]*client, 3)
	for i := range clients {
		clients[i] = e.client(lockmw.WithLocalPasses(0)) // every grant is pushed
	}
	load := e.load(clients, 2, 6)
	var killed int64
	e.every(100*time.Millisecond, 20, func() {
		n, err := e.admin.ClientKillByFilter(e.ctx, "TYPE", "pubsub").Result()
		if err != nil {
			e.t.Errorf("CLIENT KILL: %v", err)
		}
		killed += n
	})
	load.end(50, pollInterval+e.soon)
	if killed < 20 {
		e.t.Errorf("%d subscriptions were killed: the load did without them", killed)
	}
	// They are made anew: else all were found by polls.
	e.eventually(patience, func() string {
		channels, err := e.admin.PubSubChannels(e.ctx, e.prefix+":*").Result()
		if err != nil || len(channels) != len(clients) {
			return fmt.Sprintf("%d subscriptions, %v", len(channels), err)
		}
		return ""
	})
}

func killedAtGrant(e *env) {
	a, b, key := e.client(), e.client(), e.key("item")
	for range 3 {
		ctx, held := e.lock(a, key)
		w := e.wait(b, key)
		e.listening(key, 1)
		if n := e.admin.ClientKillByFilter(e.ctx, "TYPE", "pubsub").Val(); n == 0 {
			e.t.Error("nobody was subscribed")
		}
		e.unlock(ctx, held) // nobody hears of the grant
		e.unlock(w.gets(e.soon))
	}
}
