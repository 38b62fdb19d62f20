package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

var silence = []scenario{
	{"does not keep a call beyond its context", func(e *env) { e.silentServer(false) }, server},
	{"does not keep a call beyond its context, which the redis client heeds", func(e *env) { e.silentServer(true) }, server},
	{"does not keep a waiting call beyond its context", silentWhileQueued, server},
	{"does not keep Unlock beyond its timeout", silentUnlock, server},
	{"of a stopped process does not keep a call beyond its context", stoppedProcess, server | realTime},
}

const callLimit = 100 * time.Millisecond

// silentCall calls Lock with a context of callLimit while nothing is answered.
func (e *env) silentCall(c *client, key string, opts ...lockmw.Option) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, callLimit)
	defer cancel()
	start := time.Now()
	_, _, err := c.Lock(ctx, key, opts...)
	took := time.Since(start)
	if took > callLimit+e.soon {
		e.t.Errorf("the call with a context of %v took %v", callLimit, took)
	}
	e.is("Lock of a silent server", err, lockmw.ErrUnavailable, context.DeadlineExceeded)
	if errors.Is(err, lockmw.ErrBusy) {
		e.t.Errorf("a silent server is told as a lost race: %v", err)
	}
}

func (e *env) silentServer(contextTimeout bool) {
	c := e.warm(e.clientOver(func(o *redis.Options) { o.ContextTimeoutEnabled = contextTimeout }))
	other := e.client()
	c.wire.Silence()
	keys := []string{e.key("user"), e.key("user"), e.key("user")}
	e.silentCall(c, keys[0])
	e.silentCall(c, keys[1], lockmw.WithWait(0))
	e.silentCall(c, keys[2], lockmw.WithWait(time.Hour))
	c.wire.Restore()
	// What the server granted meanwhile is taken back when it answers again, which the client may
	// learn from its next try only.
	for _, key := range keys {
		_, held, err := e.rec.Lock(e.ctx, other, key, lockmw.WithWait(acceptWindow+pollInterval+e.soon))
		if err != nil {
			e.t.Errorf("the key is not free: %v", err)
			continue
		}
		e.unlock(e.ctx, held)
	}
	e.free(c, keys[0])
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
	_, next, err := e.rec.Lock(e.ctx, other, key, lockmw.WithWait(acceptWindow+pollInterval+e.soon))
	if err != nil {
		e.t.Fatalf("the key is not free: %v", err)
	}
	e.unlock(e.ctx, next)
}

func silentUnlock(e *env) {
	c := e.warm(e.client(lockmw.WithUnlockTimeout(callLimit)))
	other, key := e.client(), e.key("user")
	_, held := e.lock(c, key)
	c.wire.Silence()
	start := time.Now()
	err := held.Unlock()
	if took := time.Since(start); took > callLimit+e.soon {
		e.t.Errorf("Unlock took %v", took)
	}
	e.is("Unlock", err, lockmw.ErrUnavailable)
	c.wire.Restore()
	_, next, err := e.rec.Lock(e.ctx, other, key, lockmw.WithWait(acceptWindow+pollInterval+e.soon))
	if err != nil {
		e.t.Fatalf("the key is not free: %v", err)
	}
	e.unlock(e.ctx, next)
}

func stoppedProcess(e *env) {
	c, other := e.warm(e.client()), e.client()
	key := e.key("user")
	e.server.Pause(e.tb)
	defer e.server.Resume(e.tb)
	e.silentCall(c, key)
	e.silentCall(c, key, lockmw.WithWait(0))
	e.server.Resume(e.tb) // now it runs what it was sent while it was stopped
	_, held, err := e.rec.Lock(e.ctx, other, key, lockmw.WithWait(acceptWindow+pollInterval+e.soon))
	if err != nil {
		e.t.Fatalf("the key is not free: %v", err)
	}
	e.unlock(e.ctx, held)
}
