package rw

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var upgrades = []env.Scenario{
	env.Case("an upgrade fails immediately and changes nothing", upgradeFails, env.TwoSided|env.Shares),
	env.Case("an upgrade below the lock of another key fails", upgradeThroughAnotherKey, env.TwoSided|env.Shares|env.Sample),
	env.Case("a write lock after the read hold was unlocked is not an upgrade", noUpgradeAfterUnlock, env.TwoSided|env.Shares|env.Sample),
	env.Case("a nested read does not wait for a waiting writer", readInRead, env.TwoSided|env.Shares),
	env.Case("unlocking a write hold before its nested read admits only readers", writeUnlockedFirst, env.TwoSided|env.Shares),
}

// nest re-enters the lock in a hold's context and checks that the call does not wait.
func nest(e *env.Env, ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold) {
	e.T.Helper()
	start := time.Now()
	inner, hold, err := l.Lock(ctx, key, opts...)
	if err != nil {
		e.T.Fatalf("nested Lock: %v", err)
	}
	if took := e.Pace.Since(start); took > e.Soon {
		e.T.Errorf("re-entry took %v", took)
	}
	return inner, hold
}

func unnest(e *env.Env, h *lockmw.Hold) {
	e.T.Helper()
	if err := h.Unlock(); err != nil {
		e.T.Errorf("Unlock of a nested hold: %v", err)
	}
}

// noUpgrade checks that a write lock in ctx, which has a read hold, is refused immediately.
func noUpgrade(e *env.Env, ctx context.Context, c *env.Client, key string) {
	e.T.Helper()
	for _, opts := range [][]lockmw.Option{nil, {lockmw.WithWait(0)}, {lockmw.WithWait(time.Hour)}} {
		start := time.Now()
		got, hold, err := c.RW.Lock(ctx, key, opts...)
		e.Is("an upgrade", err, lockmw.ErrUpgrade)
		if errors.Is(err, lockmw.ErrBusy) || hold != nil || got != ctx {
			e.T.Errorf("an upgrade returned %v, or a hold, or another context", err)
		}
		if failure, ok := errors.AsType[*lockmw.Error](err); !ok || failure.Key != key || failure.ErrorType() != "lock_upgrade" {
			e.T.Errorf("an upgrade's error is %#v", err)
		}
		if took := e.Pace.Since(start); took > e.Soon {
			e.T.Errorf("an upgrade was refused after %v", took)
		}
	}
}

// stays returns a check that the server's data of key are unchanged and that c has sent no command about it.
func stays(e *env.Env, c *env.Client, key string) (check func()) {
	e.T.Helper()
	if e.Server == nil {
		return func() {}
	}
	before := e.Server.Show(e.Server.RedisKey(key))
	c.Wire.Record()
	return func() {
		e.T.Helper()
		e.Server.Unchanged(key, before)
		for _, sent := range c.Wire.Sent() {
			if sent.IsScript() && sent.Concerns(key) {
				e.T.Errorf("sent %q", sent)
			}
		}
	}
}

func upgradeFails(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	ctx, held := e.Lock(c.Reader(), key)
	reader := read(e, other, key)
	check := stays(e, c, key)
	noUpgrade(e, ctx, c, key)
	done := make(chan struct{})
	go func() {
		defer close(done)
		noUpgrade(e, ctx, c, key) // in a goroutine started inside
	}()
	<-done
	inner, nested := nest(e, ctx, c.Reader(), key)
	noUpgrade(e, inner, c, key)
	check()
	unnest(e, nested)
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the read hold has ended: %v", err)
	}
	w := e.Wait(other.RW, key)
	noUpgrade(e, ctx, c, key) // also while another call waits to write
	release(e, reader)
	w.IsWaiting()
	e.Unlock(ctx, held)
	e.Unlock(w.Gets(e.Soon))
}

func upgradeThroughAnotherKey(e *env.Env) {
	c, key, between := e.Client(), e.Key("item"), e.Key("user")
	ctx, held := e.Lock(c.Reader(), key)
	inner, writing := e.LockWith(ctx, c.RW, between)
	noUpgrade(e, inner, c, key)
	innermost, nested := nest(e, inner, c.Reader(), key)
	noUpgrade(e, innermost, c, key)
	_, again := nest(e, innermost, c.RW, between) // re-entry of between, not an upgrade
	unnest(e, again)
	unnest(e, nested)
	e.Unlock(inner, writing)
	e.Unlock(ctx, held)
	e.Free(c.RW, key)
}

func noUpgradeAfterUnlock(e *env.Env) {
	c, key := e.Client(), e.Key("item")
	ctx, held := e.Lock(c.Reader(), key)
	e.Unlock(ctx, held)
	e.Unlock(e.LockWith(context.WithoutCancel(ctx), c.RW, key, lockmw.WithWait(e.Ample(e.Soon))))
}

func readInRead(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	ctx, held := e.Lock(c.Reader(), key)
	w := e.Wait(other.RW, key)
	late := behind(e, c, key) // a different owner, so behind the writer
	for _, opt := range []lockmw.Option{lockmw.WithWait(0), lockmw.WithWait(time.Hour)} {
		_, nested := nest(e, ctx, c.Reader(), key, opt)
		if nested.Token() != held.Token() {
			e.T.Errorf("the nested hold has token %d, the outer one %d", nested.Token(), held.Token())
		}
		unnest(e, nested)
	}
	w.IsWaiting()
	late.IsWaiting()
	e.Unlock(ctx, held)
	e.Unlock(w.Gets(e.Soon))
	e.Unlock(late.Gets(e.Soon))
}

func writeUnlockedFirst(e *env.Env) {
	c, other, key := e.Client(), e.Client(), e.Key("item")
	ctx, held := e.Lock(c.RW, key)
	inner, nested := nest(e, ctx, c.Reader(), key)
	writer := e.Wait(other.RW, key)
	readers := []*env.Waiter{e.Wait(other.Reader(), key), e.Wait(c.Reader(), key)}
	holds := admitted(e, len(readers), func() {
		if err := held.Share(held.Hold.Unlock); err != nil {
			e.T.Errorf("Unlock: %v", err)
		}
	}, readers)
	if inner.Err() == nil {
		e.T.Error("the nested hold outlived the context that it was taken with")
	}
	e.Is("second Unlock", held.Hold.Unlock(), lockmw.ErrNotHeld)
	writer.IsWaiting()
	release(e, holds...)
	writer.IsWaiting()
	if err := held.End(nested.Unlock); err != nil {
		e.T.Errorf("Unlock of the nested hold: %v", err)
	}
	e.Is("second Unlock of the nested hold", nested.Unlock(), lockmw.ErrNotHeld)
	e.Unlock(writer.Gets(e.Soon))
	e.Free(other.RW, key)
}
