package plain

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var retries = []env.Scenario{
	env.Case("RetryAfter points to the end of a minimum hold", retryAfterMinHold, env.Shares|env.Costly),
	env.Case("RetryAfter points to the end of a fixed lease", retryAfterFixedLease, env.Shares),
	env.Case("RetryAfter is at most a second if the lock may become free any time", retryAfterAnyTime, env.Shares|env.Sample),
}

// tried returns the error of a TryLock.
func tried(e *env.Env, c *env.Client, key string) *lockmw.Error {
	e.T.Helper()
	_, hold, err := e.Rec.Lock(e.Ctx, c.Rival, key, lockmw.WithWait(0))
	failure, ok := errors.AsType[*lockmw.Error](err)
	if !ok || !errors.Is(err, lockmw.ErrBusy) || len(failure.Holders) != 1 {
		e.T.Fatalf("TryLock returned %v, %v; want ErrBusy with one holder", hold, err)
	}
	return failure
}

// A freeing is when a lock becomes free: some time after it was granted, between the start and the return of its call.
type freeing struct{ earliest, latest time.Time }

// lockFor takes a lock that stays taken for d.
func lockFor(e *env.Env, c *env.Client, key string, d time.Duration, opt lockmw.Option) (context.Context, *recording.Held, freeing) {
	e.T.Helper()
	start := time.Now()
	ctx, held := e.Lock(c, key, opt)
	return ctx, held, freeing{start.Add(d), time.Now().Add(d)}
}

// advised checks that RetryAfter points to the time when the lock is free, with a tolerance of the lease's margin plus 50 ms. A
// minimum hold may last longer by the duration of its release.
func advised(e *env.Env, what string, c *env.Client, key string, free freeing) *lockmw.Error {
	e.T.Helper()
	most := time.Until(free.latest) // the answer arrives later
	failure := tried(e, c, key)
	least := time.Until(free.earliest)
	if got := failure.RetryAfter; got < least-least/50-50*time.Millisecond || got > most+e.Soon {
		e.T.Errorf("%s: RetryAfter is %v, want %v to %v", what, got, least, most)
	}
	return failure
}

func retryAfterMinHold(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	least := e.Ample(1700 * time.Millisecond)
	ctx, held, free := lockFor(e, c, key, least, lockmw.WithMinHold(least))
	for what, of := range map[string]*env.Client{"held here": c, "held elsewhere": e.Client()} {
		if advised(e, what, of, key, free).Holders[0].Lingers {
			e.T.Errorf("%s: it is reported as unlocked", what)
		}
	}
	e.Unlock(ctx, held)
	for what, of := range map[string]*env.Client{"unlocked here": c, "unlocked elsewhere": e.Client()} {
		if !advised(e, what, of, key, free).Holders[0].Lingers {
			e.T.Errorf("%s: it is reported as held", what)
		}
	}
	e.Unlock(e.Wait(c, key).Gets(least + env.PollInterval + e.Soon))
}

func retryAfterFixedLease(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	const lease = 20 * time.Second
	ctx, held, free := lockFor(e, c, key, lease, lockmw.WithFixedLease(lease))
	for what, of := range map[string]*env.Client{"held here": c, "held elsewhere": e.Client()} {
		if h := advised(e, what, of, key, free).Holders[0]; !h.Fixed || h.Lingers {
			e.T.Errorf("%s: the holder is %+v", what, h)
		}
	}
	e.Unlock(ctx, held)
	e.Free(c, key)
}

func retryAfterAnyTime(e *env.Env) {
	c, key := e.Client(), e.Key("task")
	ctx, held := e.Lock(c, key)
	for _, of := range []*env.Client{c, e.Client()} {
		if f := tried(e, of, key); f.RetryAfter > time.Second || f.Holders[0].Fixed || f.Holders[0].Lingers {
			e.T.Errorf("RetryAfter is %v; the holder is %+v", f.RetryAfter, f.Holders[0])
		}
	}
	e.Unlock(ctx, held)
}
