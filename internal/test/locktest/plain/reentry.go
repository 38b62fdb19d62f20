package plain

import (
	"context"
	"math/rand/v2"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var reentry = []env.Scenario{
	env.Case("100 nested holds can be released in any order", reentersDeep, env.Shares),
	env.Case("a goroutine inherits the hold", inheritedByGoroutine, env.Shares|env.Sample),
	env.Case("a new context does not re-enter", newContextDoesNot, env.Shares|env.Sample),
	env.Case("re-entry works below a lock of another key", throughAnotherKey, env.Shares|env.Sample),
	env.Case("re-entry sends nothing", reentersLocally, env.OnServer|env.OneNode|env.Shares),
	env.Case("re-entry after a loss is refused", reentryAfterLoss, env.Shares),
}

func reentersDeep(e *env.Env) {
	const depth = 100
	c, other, key := e.Client(), e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	unlocks := []func() error{held.Unlock}
	contexts := []context.Context{ctx}
	for range depth {
		inner, hold, err := c.Lock(ctx, key)
		if err != nil {
			e.T.Fatal(err)
		}
		if hold.Token() != held.Token() {
			e.T.Fatalf("the nested hold has token %d, the outer one %d", hold.Token(), held.Token())
		}
		unlocks, contexts, ctx = append(unlocks, hold.Unlock), append(contexts, inner), inner
	}
	for n, i := range rand.Perm(len(unlocks)) {
		e.Busy(other, key)
		if err := unlocks[i](); err != nil {
			e.T.Errorf("unlock %d: %v", n, err)
		}
		if contexts[i].Err() == nil {
			e.T.Error("the context of an unlocked hold has not ended")
		}
	}
	e.Free(other, key)
}

func inheritedByGoroutine(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	done := make(chan error)
	go func() {
		_, hold, err := c.Lock(ctx, key, lockmw.WithWait(0))
		if err == nil {
			err = hold.Unlock()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		e.T.Errorf("nested in a goroutine: %v", err)
	}
	e.Unlock(ctx, held)
}

func newContextDoesNot(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	defer e.Unlock(e.Lock(c, key))
	e.Busy(c, key)
}

func throughAnotherKey(e *env.Env) {
	c, user, item := e.Client(), e.Key("user"), e.Key("item")
	ctx, outer := e.Lock(c, user)
	inner, between := e.LockWith(ctx, c, item)
	_, hold, err := c.Lock(inner, user, lockmw.WithWait(0))
	if err != nil {
		e.T.Fatal(err)
	}
	if got, err := lockmw.Held(inner, user); err != nil || got != outer.Hold {
		e.T.Errorf("Held returns %v, %v", got, err)
	}
	if err := hold.Unlock(); err != nil {
		e.T.Error(err)
	}
	e.Unlock(inner, between)
	e.Busy(e.Client(), user)
	e.Unlock(ctx, outer)
	e.Free(e.Client(), user)
}

func reentersLocally(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	c.Wire.Record()
	for range 10 {
		_, hold, err := c.Lock(ctx, key)
		if err != nil {
			e.T.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			e.T.Error(err)
		}
	}
	for _, sent := range c.Wire.Sent() {
		if sent.Concerns(key) {
			e.T.Errorf("re-entry sent %q", sent)
		}
	}
	e.Unlock(ctx, held)
}

func reentryAfterLoss(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key, lockmw.WithFixedLease(env.MinLease))
	e.Ends(ctx)
	inner, hold, err := c.Lock(ctx, key)
	e.Is("re-entry of a lost hold", err, lockmw.ErrLost)
	if hold != nil || inner != ctx {
		e.T.Error("a refused re-entry returned a hold or another context")
	}
	e.Lost(ctx, held)
}
