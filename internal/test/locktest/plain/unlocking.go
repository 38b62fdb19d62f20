package plain

import (
	"context"
	"errors"
	"sync"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var unlocking = []env.Scenario{
	env.Case("Unlock after a loss returns ErrLost and spares the next holder", unlockAfterLoss, env.Shares),
	env.Case("Unlock of a deleted lock returns ErrLost", func(e *env.Env) { unlockGone(e, remove) }, env.OnServer|env.OneNode|env.Shares|env.Sample),
	env.Case("Unlock after a forced release returns ErrLost", func(e *env.Env) { unlockGone(e, forceAll) }, env.OnServer|env.OneNode|env.Shares),
	env.Case("concurrent Unlocks succeed once", unlockConcurrently, env.Shares),
	env.Case("Unlock ends the context and frees the key", unlockEnds, env.Shares),
	env.Case("Unlock works after the context has ended", unlockAfterCancel, env.Shares|env.Sample),
	env.Case("Held after Unlock returns ErrNotHeld", heldAfterUnlock, env.Shares|env.Sample),
}

func unlockAfterLoss(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, first := e.Lock(c, key, lockmw.WithFixedLease(env.MinLease))
	e.Ends(ctx)
	next, second := e.Lock(e.Client(), key)
	e.Lost(ctx, first)
	e.Busy(c, key)
	if err := next.Err(); err != nil {
		e.T.Errorf("the next holder's context: %v", err)
	}
	e.Unlock(next, second)
}

// unlockGone makes Unlock the first to notice that the lock is gone: no renewal is due yet.
func unlockGone(e *env.Env, end func(e *env.Env, key string)) {
	c, key := e.Client(), e.Key("user")
	_, held := e.Lock(c, key)
	end(e, key)
	e.Is("Unlock of a lost lock", held.Unlock(), lockmw.ErrLost)
	e.Is("second Unlock", held.Unlock(), lockmw.ErrNotHeld)
	e.Free(c, key)
}

// remove deletes the lock.
func remove(e *env.Env, key string) {
	e.T.Helper()
	if err := e.Server.Admin.Del(e.Ctx, e.Server.RedisKey(key)).Err(); err != nil {
		e.T.Fatal(err)
	}
}

// forceAll releases all holds by force.
func forceAll(e *env.Env, key string) {
	e.T.Helper()
	for _, h := range e.Server.Status(key).Holders {
		e.Force(key, h)
	}
}

func unlockConcurrently(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	_, held := e.Lock(c, key)
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() { errs[i] = held.Unlock() })
	}
	wg.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
		} else {
			e.Is("Unlock", err, lockmw.ErrNotHeld)
		}
	}
	if succeeded != 1 {
		e.T.Errorf("%d of %d calls succeeded", succeeded, len(errs))
	}
	e.Free(c, key)
}

func unlockEnds(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the context of the hold has ended: %v", err)
	}
	e.Unlock(ctx, held)
	if !e.Ends(ctx) {
		return
	}
	if err := ctx.Err(); !errors.Is(err, context.Canceled) {
		e.T.Errorf("the context ended with %v", err)
	}
	e.Is("the cause of the context's end", context.Cause(ctx), lockmw.ErrNotHeld)
	e.Free(e.Client(), key)
}

func unlockAfterCancel(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	parent, cancel := context.WithCancel(e.Ctx)
	ctx, held := e.LockWith(parent, c, key)
	cancel()
	e.Ends(ctx)
	e.Busy(e.Client(), key) // ending the context does not release the lock
	e.Unlock(ctx, held)
	e.Free(e.Client(), key)
}

func heldAfterUnlock(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	if got, err := lockmw.Held(ctx, key); err != nil || got != held.Hold {
		e.T.Errorf("Held returns %v, %v", got, err)
	}
	e.Unlock(ctx, held)
	_, err := lockmw.Held(ctx, key)
	e.Is("Held after Unlock", err, lockmw.ErrNotHeld)
}
