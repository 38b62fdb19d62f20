package fault

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

// A half-open connection loses what is sent on it without an error, for example because a firewall dropped its state or the
// other machine is down.
var halfOpen = []env.Scenario{
	env.Case("a connection that swallows a renewal loses no hold", func(e *env.Env) { swallowedRenewal(e, false) }, env.InRealTime|env.OneServer|env.Shares),
	env.Case("a connection that swallows a renewal loses no hold, with ContextTimeoutEnabled", func(e *env.Env) { swallowedRenewal(e, true) }, env.InRealTime|env.OneServer|env.Shares),
	env.Case("a connection that swallows an acquire delays only that call", swallowedAcquire, env.InRealTime|env.OneServer|env.Shares|env.Sample),
	env.Case("a connection that swallows an acquire delays only that call, with a context that never ends", swallowedAcquireWithoutContext, env.InRealTime|env.OneServer|env.Shares),
	env.Case("a connection that swallows a release does not keep the lock", swallowedRelease, env.InRealTime|env.OneServer|env.Shares),
	env.Case("a half-open subscription delays waiters by one poll at most, and is replaced", swallowedPush, env.InRealTime|env.Alone),
	env.Case("half-open connections do not keep a call beyond its context", func(e *env.Env) { swallowedCalls(e, false) }, env.InRealTime|env.OneServer|env.Shares|env.Sample),
	env.Case("half-open connections do not keep a call beyond its context, with ContextTimeoutEnabled", func(e *env.Env) { swallowedCalls(e, true) }, env.InRealTime|env.OneServer|env.Shares|env.Sample),
}

func swallowedRenewal(e *env.Env, contextTimeout bool) {
	lease := e.Ample(600 * time.Millisecond)
	p := e.Server.NewProxy(e.TB)
	use := func(o *redis.Options) {
		p.Use(o)
		o.ContextTimeoutEnabled = contextTimeout
	}
	patient := lockmw.WithUnlockTimeout(env.Patience)
	c, other := e.ClientOver(use, patient), e.ClientOver(use, patient)
	holds := make([]*kept, 5)
	for i := range holds {
		holds[i] = keep(e, c, lease)
	}
	load := e.Load([]*env.Client{c, other}, 2, 4)
	caught := p.SwallowOne(e.Server.RedisKey(holds[0].Key()))
	select {
	case <-caught:
	case <-time.After(env.Patience):
		e.T.Fatal("no renewal was sent")
	}
	outlive(e, holds...)
	load.End(50, env.PollInterval+e.Soon)
	p.Restore()
}

// briefPatience is the time after which a command without an answer is resent on another connection, if nothing else ends
// the call before.
const briefPatience = time.Second

func swallowedAcquire(e *env.Env) {
	const readTimeout = 700 * time.Millisecond
	p := e.Server.NewProxy(e.TB)
	c := e.ClientOver(func(o *redis.Options) {
		p.Use(o)
		o.ReadTimeout = readTimeout
	}).Warm()
	key := e.Key("user")
	caught := p.SwallowOne(e.Server.RedisKey(key))
	w := e.Call(e.Ctx, c, key)
	<-caught
	e.Free(c, e.Key("user"))
	e.Unlock(w.Gets(readTimeout + e.Soon))
}

func swallowedAcquireWithoutContext(e *env.Env) {
	p := e.Server.NewProxy(e.TB)
	c, key := e.ClientOver(p.Use).Warm(), e.Key("user")
	caught := p.SwallowOne(e.Server.RedisKey(key))
	start := time.Now()
	ctx, held := e.LockWith(context.WithoutCancel(e.Ctx), c, key) // only the answer ends this call
	if took := e.Pace.Since(start); took > briefPatience+e.Soon {
		e.T.Errorf("Lock took %v", took)
	}
	<-caught
	e.Unlock(ctx, held)
	p.Restore()
}

func swallowedRelease(e *env.Env) {
	p := e.Server.NewProxy(e.TB)
	c, other, key := e.ClientOver(p.Use).Warm(), e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	caught := p.SwallowOne(e.Server.RedisKey(key))
	start := time.Now()
	e.Unlock(ctx, held)
	if took := e.Pace.Since(start); took > briefPatience+e.Soon {
		e.T.Errorf("Unlock took %v", took)
	}
	<-caught
	e.Free(other, key)
	p.Restore()
}

// subscribers returns the connection IDs of all subscribers.
func subscribers(e *env.Env) string {
	list, err := e.Server.Admin.Do(e.Ctx, "client", "list", "type", "pubsub").Text()
	if err != nil {
		return err.Error()
	}
	return strings.Join(regexp.MustCompile(`(?m)^id=\d+`).FindAllString(list, -1), " ")
}

func swallowedPush(e *env.Env) {
	p := e.Server.NewProxy(e.TB)
	c, other, key := e.ClientOver(p.Use).Warm(), e.Client(), e.Key("user")
	caught := p.SwallowOne(" " + e.Server.RedisKey(key)) // as a push contains it
	dead := ""
	for range 3 {
		ctx, held := e.Lock(other, key)
		w := e.Wait(c, key)
		e.Eventually(env.Patience, func() string {
			if channels := e.Server.Admin.PubSubChannels(e.Ctx, e.Server.Prefix+":*").Val(); len(channels) != 1 {
				return "the waiter is not subscribed"
			}
			return ""
		})
		if dead == "" {
			dead = subscribers(e)
		}
		e.Unlock(ctx, held)
		e.Unlock(w.Gets(env.PollInterval + e.Soon))
		<-caught
	}
	e.Eventually(env.Patience, func() string {
		if now := subscribers(e); now == "" || now == dead {
			return "the dead subscription was not replaced"
		}
		return ""
	})
	p.Restore()
}

func swallowedCalls(e *env.Env, contextTimeout bool) {
	p := e.Server.NewProxy(e.TB)
	c := e.ClientOver(func(o *redis.Options) {
		p.Use(o)
		o.ContextTimeoutEnabled = contextTimeout
	}).Warm()
	silentTo(e, c, p.Swallow, p.Restore)
}
