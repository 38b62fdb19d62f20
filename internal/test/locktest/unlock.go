package locktest

import (
	"context"
	"errors"
	"sync"

	"github.com/lockmw/go/lockmw"
)

var unlocking = []scenario{
	{"twice is ErrNotHeld and leaves the next holder alone", unlockTwice, shares},
	{"after a loss is ErrLost and leaves the next holder alone", unlockAfterLoss, shares},
	{"after a loss is ErrLost once, then ErrNotHeld", unlockTwiceAfterLoss, shares},
	{"of a lock that was deleted is ErrLost", func(e *env) { e.unlockGone(e.remove) }, server | shares | sample},
	{"of a lock that was released by force is ErrLost", func(e *env) { e.unlockGone(e.forceAll) }, server | shares},
	{"by many at once succeeds once", unlockConcurrently, shares},
	{"ends the context and frees the key", unlockEnds, shares},
	{"needs no live context", unlockAfterCancel, shares | sample},
	{"of a hold in a context says so", heldAfterUnlock, shares | sample},
}

func unlockTwice(e *env) {
	c, key := e.client(), e.key("user")
	ctx, first := e.lock(c, key)
	e.unlock(ctx, first)
	ctx, second := e.lock(e.client(), key, lockmw.WithWait(e.soon))
	e.is("the second Unlock", first.Unlock(), lockmw.ErrNotHeld)
	e.busy(c, key)
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the next holder's context: %v", err)
	}
	e.unlock(ctx, second)
}

func unlockAfterLoss(e *env) {
	c, key := e.client(), e.key("user")
	ctx, first := e.lock(c, key, lockmw.WithFixedLease(minLease))
	e.ends(ctx)
	next, second := e.lock(e.client(), key)
	e.lost(ctx, first)
	e.busy(c, key)
	if err := next.Err(); err != nil {
		e.t.Errorf("the next holder's context: %v", err)
	}
	e.unlock(next, second)
}

func unlockTwiceAfterLoss(e *env) {
	ctx, held := e.lock(e.client(), e.key("user"), lockmw.WithFixedLease(minLease))
	e.lost(ctx, held)
	e.is("Unlock once more", held.Unlock(), lockmw.ErrNotHeld)
}

// unlockGone has nothing but Unlock find out that the lock is gone: there is no renewal for long yet.
func (e *env) unlockGone(end func(key string)) {
	c, key := e.client(), e.key("user")
	_, held := e.lock(c, key)
	end(key)
	e.is("Unlock of a lock that is gone", held.Unlock(), lockmw.ErrLost)
	e.is("Unlock once more", held.Unlock(), lockmw.ErrNotHeld)
	e.free(c, key)
}

// remove deletes the lock.
func (e *env) remove(key string) {
	e.t.Helper()
	if err := e.admin.Del(e.ctx, e.redisKey(key)).Err(); err != nil {
		e.t.Fatal(err)
	}
}

// forceAll releases the lock by force.
func (e *env) forceAll(key string) {
	e.t.Helper()
	for _, h := range e.status(key).Holders {
		e.force(key, h)
	}
}

func unlockConcurrently(e *env) {
	c, key := e.client(), e.key("user")
	_, held := e.lock(c, key)
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
			e.is("Unlock", err, lockmw.ErrNotHeld)
		}
	}
	if succeeded != 1 {
		e.t.Errorf("%d of %d calls succeeded", succeeded, len(errs))
	}
	e.free(c, key)
}

func unlockEnds(e *env) {
	c, key := e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	if err := ctx.Err(); err != nil {
		e.t.Errorf("the context of a hold has ended: %v", err)
	}
	e.unlock(ctx, held)
	if !e.ends(ctx) {
		return
	}
	if err := ctx.Err(); !errors.Is(err, context.Canceled) {
		e.t.Errorf("the context ended with %v", err)
	}
	e.is("the cause of its end", context.Cause(ctx), lockmw.ErrNotHeld)
	e.free(e.client(), key)
}

func unlockAfterCancel(e *env) {
	c, key := e.client(), e.key("user")
	parent, cancel := context.WithCancel(e.ctx)
	ctx, held := e.lockWith(parent, c, key)
	cancel()
	e.ends(ctx)
	e.busy(e.client(), key) // the end of a context is no release
	e.unlock(ctx, held)
	e.free(e.client(), key)
}

func heldAfterUnlock(e *env) {
	c, key := e.client(), e.key("user")
	ctx, held := e.lock(c, key)
	if got, err := lockmw.Held(ctx, key); err != nil || got != held.Hold {
		e.t.Errorf("Held returns %v, %v", got, err)
	}
	e.unlock(ctx, held)
	_, err := lockmw.Held(ctx, key)
	e.is("Held after Unlock", err, lockmw.ErrNotHeld)
}
