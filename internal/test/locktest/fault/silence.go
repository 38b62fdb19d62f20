package fault

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var silence = []env.Scenario{
	env.Case("a silent server does not keep a call beyond its context", func(e *env.Env) { silentServer(e, false) }, env.OnServer|env.Shares),
	env.Case("a silent server does not keep a call beyond its context, with ContextTimeoutEnabled", func(e *env.Env) { silentServer(e, true) }, env.OnServer|env.Shares),
	env.Case("a silent server does not keep a waiting call beyond its context", silentWhileQueued, env.OnServer|env.Shares|env.Sample),
	env.Case("a silent server does not keep Unlock beyond its timeout", silentUnlock, env.OnServer|env.Shares),
	env.Case("a silent server does not keep TryLock waiting", silentTry, env.OnServer|env.InBubble),
	env.Case("a silent server is not reported as a busy lock, however short the wait is", silentShortly, env.OnServer|env.InBubble|env.Sample),
	env.Case("a stopped server does not keep a call beyond its context", func(e *env.Env) { serverStops(e, false) }, env.InRealTime|env.Alone|env.Sample),
	env.Case("a stopped server does not keep a call beyond its context, with ContextTimeoutEnabled", func(e *env.Env) { serverStops(e, true) }, env.InRealTime|env.Alone|env.Sample),
}

// silentTo checks how c behaves without answers, between begin and end.
func silentTo(e *env.Env, c *env.Client, begin, end func()) {
	e.T.Helper()
	ctx, held := e.Lock(c, e.Key("user"))
	begin()
	keys := []string{e.Key("user"), e.Key("user"), e.Key("user")}
	c.SilentCall(keys[0])
	c.SilentCall(keys[1], lockmw.WithWait(0))
	c.SilentCall(keys[2], lockmw.WithWait(time.Hour))
	silentExtend(e, held)
	end()
	e.Unlock(ctx, held)
	// Locks granted in the meantime are released when the server answers again. The client may notice only at its next
	// attempt.
	other := e.Client()
	for _, key := range keys {
		_, held, err := e.Rec.Lock(e.Ctx, other.Rival, key, lockmw.WithWait(env.AcceptWindow+env.PollInterval+e.Soon))
		if err != nil {
			e.T.Errorf("the key is not free: %v", err)
			continue
		}
		e.Unlock(e.Ctx, held)
	}
	e.Free(c, keys[0])
}

// silentExtend calls Extend with a timeout of CallLimit while the server does not answer.
func silentExtend(e *env.Env, held *recording.Held) {
	e.T.Helper()
	limit := e.CallLimit()
	ctx, cancel := context.WithTimeout(e.Ctx, limit)
	defer cancel()
	start := time.Now()
	err := held.Extend(ctx, time.Minute)
	if took := e.Pace.Since(start); took > limit+e.Soon {
		e.T.Errorf("Extend with a context of %v took %v", limit, took)
	}
	e.Is("Extend", err, lockmw.ErrUnavailable, context.DeadlineExceeded)
}

func silentServer(e *env.Env, contextTimeout bool) {
	c := e.ClientOver(func(o *redis.Options) { o.ContextTimeoutEnabled = contextTimeout }).Warm()
	silentTo(e, c, c.Wire.Silence, c.Wire.Restore)
}

func serverStops(e *env.Env, contextTimeout bool) {
	c := e.ClientOver(func(o *redis.Options) { o.ContextTimeoutEnabled = contextTimeout }).Warm()
	// When it continues, it runs the commands that it received in the meantime.
	silentTo(e, c, func() { e.Server.Pause(e.TB) }, func() { e.Server.Resume(e.TB) })
}

func silentWhileQueued(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("user")
	held, hold := e.Lock(other, key)
	ctx, cancel := context.WithCancel(e.Ctx)
	w := e.WaitWith(ctx, c, key)
	c.Wire.Silence()
	cancel()
	w.Fails(e.Soon, context.Canceled)
	e.Unlock(held, hold)
	c.Wire.Restore()
	_, next, err := e.Rec.Lock(e.Ctx, other.Rival, key, lockmw.WithWait(env.AcceptWindow+env.PollInterval+e.Soon))
	if err != nil {
		e.T.Fatalf("the key is not free: %v", err)
	}
	e.Unlock(e.Ctx, next)
}

// silentTry checks that TryLock does not wait until go-redis gives up.
func silentTry(e *env.Env) {
	const limit = 2 * time.Second
	c, keys := e.Client().Warm(), []string{e.Key("user"), e.Key("user")}
	c.Wire.Silence()
	start := time.Now()
	_, _, err := c.Lock(e.Ctx, keys[0], lockmw.WithWait(0))
	if took := e.Pace.Since(start); took > limit+e.Soon {
		e.T.Errorf("TryLock took %v", took)
	}
	e.Is("TryLock", err, lockmw.ErrUnavailable)
	start = time.Now()
	_, open, err := c.Lock(e.Ctx, keys[1], lockmw.WithWait(0), lockmw.WithFailOpen())
	if took := e.Pace.Since(start); took > limit+e.Soon || err != nil {
		e.T.Errorf("TryLock that fails open took %v: %v", took, err)
	} else if err := open.Unlock(); err != nil {
		e.T.Errorf("Unlock of a fail-open hold: %v", err)
	}
	c.Wire.Restore()
	other := e.Client()
	for _, key := range keys {
		_, next, err := e.Rec.Lock(e.Ctx, other.Rival, key, lockmw.WithWait(env.AcceptWindow+env.PollInterval+e.Soon))
		if err != nil {
			e.T.Errorf("the key is not free: %v", err)
			continue
		}
		e.Unlock(e.Ctx, next)
	}
}

// silentShortly checks that a call whose time ends before the server could answer does not take the lock for busy.
func silentShortly(e *env.Env) {
	c, key := e.Client().Warm(), e.Key("user")
	c.Wire.Silence()
	for _, wait := range []time.Duration{time.Millisecond, 49 * time.Millisecond, 50 * time.Millisecond, 51 * time.Millisecond} {
		_, _, err := c.Lock(e.Ctx, key, lockmw.WithWait(wait))
		if !errors.Is(err, lockmw.ErrUnavailable) || errors.Is(err, lockmw.ErrBusy) {
			e.T.Errorf("Lock of a silent server for %v: %v", wait, err)
		}
		_, open, err := c.Lock(e.Ctx, key, lockmw.WithWait(wait), lockmw.WithFailOpen())
		if err != nil {
			e.T.Errorf("Lock for %v that fails open: %v", wait, err)
			continue
		}
		if err := open.Unlock(); err != nil {
			e.T.Errorf("Unlock of a fail-open hold: %v", err)
		}
	}
	c.Wire.Restore()
	other := e.Client()
	_, next, err := e.Rec.Lock(e.Ctx, other.Rival, key, lockmw.WithWait(env.AcceptWindow+env.PollInterval+e.Soon))
	if err != nil {
		e.T.Fatalf("the key is not free: %v", err)
	}
	e.Unlock(e.Ctx, next)
}

func silentUnlock(e *env.Env) {
	const limit = 400 * time.Millisecond
	c := e.Client(lockmw.WithUnlockTimeout(limit)).Warm()
	other, key := e.Client(), e.Key("user")
	_, held := e.Lock(c, key)
	c.Wire.Silence()
	start := time.Now()
	err := held.Unlock()
	if took := e.Pace.Since(start); took > limit+e.Soon {
		e.T.Errorf("Unlock took %v", took)
	}
	e.Is("Unlock", err, lockmw.ErrUnavailable)
	c.Wire.Restore()
	_, next, err := e.Rec.Lock(e.Ctx, other.Rival, key, lockmw.WithWait(env.AcceptWindow+env.PollInterval+e.Soon))
	if err != nil {
		e.T.Fatalf("the key is not free: %v", err)
	}
	e.Unlock(e.Ctx, next)
}
