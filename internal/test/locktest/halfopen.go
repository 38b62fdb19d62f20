package locktest

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A connection is half-open if what is sent on it gets lost without a sign: a firewall has forgotten
// it, or the other side's machine is gone.
var halfOpen = []scenario{
	{"connection that swallows a renewal loses no hold", func(e *env) { e.swallowedRenewal(false) }, realTime | shares},
	{"connection that swallows a renewal loses no hold, with timeouts by context", func(e *env) { e.swallowedRenewal(true) }, realTime | shares},
	{"connection that swallows an acquire delays only that call", swallowedAcquire, realTime | shares | sample},
	{"connection that swallows an acquire without a context's end does so too", swallowedAcquireWithoutContext, realTime | shares},
	{"connection that swallows a release does not keep the lock", swallowedRelease, realTime | shares},
	{"subscription keeps nobody waiting for longer than a poll, and is made anew", swallowedPush, realTime | alone},
	{"connections do not keep a call beyond its context", func(e *env) { e.swallowedCalls(false) }, realTime | shares | sample},
	{"connections do not keep a call beyond its context, which the redis client heeds", func(e *env) { e.swallowedCalls(true) }, realTime | shares | sample},
}

func (e *env) swallowedRenewal(contextTimeout bool) {
	const lease = 1200 * time.Millisecond
	p := e.server.NewProxy(e.tb)
	use := func(o *redis.Options) {
		p.Use(o)
		o.ContextTimeoutEnabled = contextTimeout
	}
	c, other := e.clientOver(use), e.clientOver(use)
	holds := make([]*kept, 5)
	for i := range holds {
		holds[i] = e.keep(c, lease)
	}
	load := e.load([]*client{c, other}, 2, 4)
	caught := p.SwallowOne(e.redisKey(holds[0].Key()))
	select {
	case <-caught:
	case <-time.After(patience):
		e.t.Fatal("nothing was renewed")
	}
	e.outlive(holds...)
	load.end(50, pollInterval+e.soon)
	p.Restore()
}

// briefPatience is after how long a command without an answer is sent once more on another
// connection, where nothing else ends the call before.
const briefPatience = time.Second

func swallowedAcquire(e *env) {
	const readTimeout = 700 * time.Millisecond
	p := e.server.NewProxy(e.tb)
	c := e.warm(e.clientOver(func(o *redis.Options) {
		p.Use(o)
		o.ReadTimeout = readTimeout
	}))
	key := e.key("user")
	caught := p.SwallowOne(e.redisKey(key))
	w := e.call(e.ctx, c, key)
	<-caught
	e.free(c, e.key("user"))
	e.unlock(w.gets(readTimeout + e.soon))
}

func swallowedAcquireWithoutContext(e *env) {
	p := e.server.NewProxy(e.tb)
	c, key := e.warm(e.clientOver(p.Use)), e.key("user")
	caught := p.SwallowOne(e.redisKey(key))
	start := time.Now()
	ctx, held := e.lockWith(context.WithoutCancel(e.ctx), c, key) // nothing ends it but the answer
	if took := e.pace.since(start); took > briefPatience+e.soon {
		e.t.Errorf("Lock took %v", took)
	}
	<-caught
	e.unlock(ctx, held)
	p.Restore()
}

func swallowedRelease(e *env) {
	p := e.server.NewProxy(e.tb)
	c, other, key := e.warm(e.clientOver(p.Use)), e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	caught := p.SwallowOne(e.redisKey(key))
	start := time.Now()
	e.unlock(ctx, held)
	if took := e.pace.since(start); took > briefPatience+e.soon {
		e.t.Errorf("Unlock took %v", took)
	}
	<-caught
	e.free(other, key)
	p.Restore()
}

// subscribers returns the numbers that the server has given to connections with subscriptions.
func (e *env) subscribers() string {
	list, err := e.admin.Do(e.ctx, "client", "list", "type", "pubsub").Text()
	if err != nil {
		return err.Error()
	}
	return strings.Join(regexp.MustCompile(`(?m)^id=\d+`).FindAllString(list, -1), " ")
}

// inboxSilence is after how long a subscription without a message is tested, and how long that takes.
const inboxSilence = 5 * time.Second

func swallowedPush(e *env) {
	p := e.server.NewProxy(e.tb)
	c, other, key := e.warm(e.clientOver(p.Use)), e.client(), e.key("user")
	caught := p.SwallowOne(" " + e.redisKey(key)) // as a push has it
	for range 3 {
		ctx, held := e.lock(other, key)
		w := e.wait(c, key)
		e.eventually(patience, func() string {
			if channels := e.admin.PubSubChannels(e.ctx, e.prefix+":*").Val(); len(channels) != 1 {
				return "the one that waits is not subscribed"
			}
			return ""
		})
		e.unlock(ctx, held)
		e.unlock(w.gets(pollInterval + e.soon))
		<-caught
	}
	dead := e.subscribers()
	e.eventually(2*inboxSilence+e.soon, func() string {
		if now := e.subscribers(); now == "" || now == dead {
			return "the dead subscription is not noticed"
		}
		return ""
	})
	p.Restore()
}

func (e *env) swallowedCalls(contextTimeout bool) {
	p := e.server.NewProxy(e.tb)
	c := e.warm(e.clientOver(func(o *redis.Options) {
		p.Use(o)
		o.ContextTimeoutEnabled = contextTimeout
	}))
	e.silentTo(c, p.Swallow, p.Restore)
}
