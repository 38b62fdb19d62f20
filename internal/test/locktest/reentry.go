package locktest

import (
	"context"
	"math/rand/v2"

	"github.com/lockmw/go/lockmw"
)

var reentry = []scenario{
	{"100 deep, released in any order", reentersDeep, shares},
	{"a goroutine started inside inherits the hold", inheritedByGoroutine, shares | sample},
	{"a new context does not re-enter", newContextDoesNot, shares | sample},
	{"through the lock of another key", throughAnotherKey, shares | sample},
	{"sends nothing", reentersLocally, server | shares},
	{"after the last unlock takes the lock anew", reentryAfterUnlock, shares},
	{"after a loss is refused", reentryAfterLoss, shares},
}

func reentersDeep(e *env) {
	const depth = 100
	c, other, key := e.client(), e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	unlocks := []func() error{held.Unlock}
	contexts := []context.Context{ctx}
	for range depth {
		inner, hold, err := c.Lock(ctx, key)
		if err != nil {
			e.t.Fatal(err)
		}
		if hold.Token() != held.Token() {
			e.t.Fatalf("the nested hold has token %d, the outer one %d", hold.Token(), held.Token())
		}
		unlocks, contexts, ctx = append(unlocks, hold.Unlock), append(contexts, inner), inner
	}
	for n, i := range rand.Perm(len(unlocks)) {
		e.busy(other, key)
		if err := unlocks[i](); err != nil {
			e.t.Errorf("unlock %d: %v", n, err)
		}
		if contexts[i].Err() == nil {
			e.t.Error("the context of an unlocked hold goes on")
		}
	}
	e.free(other, key)
}

func inheritedByGoroutine(e *env) {
	c, key := e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	done := make(chan error)
	go func() {
		_, hold, err := c.Lock(ctx, key, lockmw.WithWait(0))
		if err == nil {
			err = hold.Unlock()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		e.t.Errorf("nested in a goroutine: %v", err)
	}
	e.unlock(ctx, held)
}

func newContextDoesNot(e *env) {
	c, key := e.client(), e.key("user")
	defer e.unlock(e.lock(c, key))
	e.busy(c, key)
}

func throughAnotherKey(e *env) {
	c, user, item := e.client(), e.key("user"), e.key("item")
	ctx, outer := e.lock(c, user)
	inner, between := e.lockWith(ctx, c, item)
	_, hold, err := c.Lock(inner, user, lockmw.WithWait(0))
	if err != nil {
		e.t.Fatal(err)
	}
	if got, err := lockmw.Held(inner, user); err != nil || got != outer.Hold {
		e.t.Errorf("Held returns %v, %v", got, err)
	}
	if err := hold.Unlock(); err != nil {
		e.t.Error(err)
	}
	e.unlock(inner, between)
	e.busy(e.client(), user)
	e.unlock(ctx, outer)
	e.free(e.client(), user)
}

func reentersLocally(e *env) {
	c, key := e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	c.wire.Record()
	for range 10 {
		_, hold, err := c.Lock(ctx, key)
		if err != nil {
			e.t.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			e.t.Error(err)
		}
	}
	for _, sent := range c.wire.Sent() {
		if sent.Concerns(key) {
			e.t.Errorf("re-entry sent %q", sent)
		}
	}
	e.unlock(ctx, held)
}

func reentryAfterUnlock(e *env) {
	c, key := e.client(), e.key("user")
	ctx, first := e.lock(c, key)
	e.unlock(ctx, first)
	// A lock taken with the ended hold's context would end at once: the work goes on without it.
	_, second := e.lockWith(context.WithoutCancel(ctx), c, key, lockmw.WithWait(e.soon))
	e.busy(c, key)
	e.unlock(ctx, second)
}

func reentryAfterLoss(e *env) {
	c, key := e.client(), e.key("user")
	ctx, held := e.lock(c, key, lockmw.WithFixedLease(minLease))
	e.ends(ctx)
	inner, hold, err := c.Lock(ctx, key)
	e.is("re-entry of a lost hold", err, lockmw.ErrLost)
	if hold != nil || inner != ctx {
		e.t.Error("a refused re-entry returned a hold or another context")
	}
	e.lost(ctx, held)
}
