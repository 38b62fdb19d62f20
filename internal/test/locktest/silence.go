package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

var silence = []scenario{
	{"does not keep a call beyond its context", func(e *env) { e.silentServer(false) }, server | shares},
	{"does not keep a call beyond its context, which the redis client heeds", func(e *env) { e.silentServer(true) }, server | shares},
	{"does not keep a waiting call beyond its context", silentWhileQueued, server | shares | sample},
	{"does not keep Unlock beyond its timeout", silentUnlock, server | shares},
	{"does not keep a call that only tries", silentTry, server | bubble},
	{"of a stopped process does not keep a call beyond its context", func(e *env) { e.stoppedServer(false) }, realTime | alone | sample},
	{"of a stopped process does not keep a call beyond its context, which the redis client heeds", func(e *env) { e.stoppedServer(true) }, realTime | alone | sample},
}

const callLimit = 100 * time.Millisecond

// silentCall calls Lock with a context of callLimit while nothing is answered.
func (e *env) silentCall(c *client, key string, opts ...lockmw.Option) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, callLimit)
	defer cancel()
	start := time.Now()
	_, _, err := c.Lock(ctx, key, opts...)
	took := e.pace.since(start)
	if took > callLimit+e.soon {
		e.t.Errorf("the call with a context of %v took %v", callLimit, took)
	}
	e.is("Lock of a silent server", err, lockmw.ErrUnavailable, context.DeadlineExceeded)
	if errors.Is(err, lockmw.ErrBusy) {
		e.t.Errorf("a silent server is told as a lost race: %v", err)
	}
}

// silentTo checks what c does between begin and end, while nothing is answered.
func (e *env) silentTo(c *client, begin, end func()) {
	e.t.Helper()
	ctx, held := e.lock(c, e.key("user"))
	begin()
	keys := []string{e.key("user"), e.key("user"), e.key("user")}
	e.silentCall(c, keys[0])
	e.silentCall(c, keys[1], lockmw.WithWait(0))
	e.silentCall(c, keys[2], lockmw.WithWait(time.Hour))
	e.silentExtend(held)
	end()
	e.unlock(ctx, held)
	// What the server granted meanwhile is taken back when it answers again, which the client may
	// learn from its next try only.
	other := e.client()
	for _, key := range keys {
		_, held, err := e.rec.Lock(e.ctx, other.rival, key, lockmw.WithWait(acceptWindow+pollInterval+e.soon))
		if err != nil {
			e.t.Errorf("the key is not free: %v", err)
			continue
		}
		e.unlock(e.ctx, held)
	}
	e.free(c, keys[0])
}

// silentExtend calls Extend with a context of callLimit while nothing is answered.
func (e *env) silentExtend(held *Held) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, callLimit)
	defer cancel()
	start := time.Now()
	err := held.Extend(ctx, time.Minute)
	if took := e.pace.since(start); took > callLimit+e.soon {
		e.t.Errorf("Extend with a context of %v took %v", callLimit, took)
	}
	e.is("Extend", err, lockmw.ErrUnavailable, context.DeadlineExceeded)
}

func (e *env) silentServer(contextTimeout bool) {
	c := e.warm(e.clientOver(func(o *redis.Options) { o.ContextTimeoutEnabled = contextTimeout }))
	e.silentTo(c, c.wire.Silence, c.wire.Restore)
}

func (e *env) stoppedServer(contextTimeout bool) {
	c := e.warm(e.clientOver(func(o *redis.Options) { o.ContextTimeoutEnabled = contextTimeout }))
	// When it goes on, it runs what it was sent meanwhile.
	e.silentTo(c, func() { e.server.Pause(e.tb) }, func() { e.server.Resume(e.tb) })
}

func silentWhileQueued(e *env) {
	c, other, key := e.client(), e.client(), e.key("user")
	held, hold := e.lock(other, key)
	ctx, cancel := context.WithCancel(e.ctx)
	w := e.waitWith(ctx, c, key)
	c.wire.Silence()
	cancel()
	w.fails(e.soon, context.Canceled)
	e.unlock(held, hold)
	c.wire.Restore()
	_, next, err := e.rec.Lock(e.ctx, other.rival, key, lockmw.WithWait(acceptWindow+pollInterval+e.soon))
	if err != nil {
		e.t.Fatalf("the key is not free: %v", err)
	}
	e.unlock(e.ctx, next)
}

// silentTry checks that a call which does not wait for others does not wait for go-redis to give up.
func silentTry(e *env) {
	const limit = 2 * time.Second
	c, keys := e.warm(e.client()), []string{e.key("user"), e.key("user")}
	c.wire.Silence()
	start := time.Now()
	_, _, err := c.Lock(e.ctx, keys[0], lockmw.WithWait(0))
	if took := e.pace.since(start); took > limit+e.soon {
		e.t.Errorf("a try took %v", took)
	}
	e.is("a try", err, lockmw.ErrUnavailable)
	start = time.Now()
	_, open, err := c.Lock(e.ctx, keys[1], lockmw.WithWait(0), lockmw.WithFailOpen())
	if took := e.pace.since(start); took > limit+e.soon || err != nil {
		e.t.Errorf("a try that fails open took %v: %v", took, err)
	} else if err := open.Unlock(); err != nil {
		e.t.Errorf("Unlock of a hold without a lock: %v", err)
	}
	c.wire.Restore()
	other := e.client()
	for _, key := range keys {
		_, next, err := e.rec.Lock(e.ctx, other.rival, key, lockmw.WithWait(acceptWindow+pollInterval+e.soon))
		if err != nil {
			e.t.Errorf("the key is not free: %v", err)
			continue
		}
		e.unlock(e.ctx, next)
	}
}

func silentUnlock(e *env) {
	const limit = 4 * callLimit
	c := e.warm(e.client(lockmw.WithUnlockTimeout(limit)))
	other, key := e.client(), e.key("user")
	_, held := e.lock(c, key)
	c.wire.Silence()
	start := time.Now()
	err := held.Unlock()
	if took := e.pace.since(start); took > limit+e.soon {
		e.t.Errorf("Unlock took %v", took)
	}
	e.is("Unlock", err, lockmw.ErrUnavailable)
	c.wire.Restore()
	_, next, err := e.rec.Lock(e.ctx, other.rival, key, lockmw.WithWait(acceptWindow+pollInterval+e.soon))
	if err != nil {
		e.t.Fatalf("the key is not free: %v", err)
	}
	e.unlock(e.ctx, next)
}
