package locktest

import (
	"errors"
	"time"

	"github.com/lockmw/go/lockmw"
)

var retries = []scenario{
	{"is advised for the end of a minimum hold", retryAfterMinHold, shares | sample},
	{"is advised for the end of a fixed lease", retryAfterFixedLease, shares},
	{"is advised within a second if the lock may become free at any time", retryAfterAnyTime, shares},
}

// tried returns the error of a call that only tries.
func (e *env) tried(c *client, key string) *lockmw.Error {
	e.t.Helper()
	_, hold, err := e.rec.Lock(e.ctx, c.rival, key, lockmw.WithWait(0))
	failure, ok := errors.AsType[*lockmw.Error](err)
	if !ok || !errors.Is(err, lockmw.ErrBusy) || len(failure.Holders) != 1 {
		e.t.Fatalf("a try got %v, %v, want ErrBusy with one holder", hold, err)
	}
	return failure
}

// advised checks that a try is advised to come back when the lock is free, which is an instant known to the
// margin of the lease and 50 ms.
func (e *env) advised(what string, c *client, key string, free time.Time) *lockmw.Error {
	e.t.Helper()
	most := time.Until(free) // the answer comes later
	failure := e.tried(c, key)
	least := time.Until(free)
	if got := failure.RetryAfter; got < least-least/50-50*time.Millisecond || got > most+50*time.Millisecond {
		e.t.Errorf("%s: to be tried again after %v, want %v to %v", what, got, least, most)
	}
	return failure
}

func retryAfterMinHold(e *env) {
	c, key := e.client(), e.key("task")
	const least = 1700 * time.Millisecond
	ctx, held := e.lock(c, key, lockmw.WithMinHold(least))
	free := time.Now().Add(least)
	for what, of := range map[string]*client{"held here": c, "held elsewhere": e.client()} {
		if e.advised(what, of, key, free).Holders[0].Lingers {
			e.t.Errorf("%s: it is said to be unlocked", what)
		}
	}
	e.unlock(ctx, held)
	for what, of := range map[string]*client{"unlocked here": c, "unlocked elsewhere": e.client()} {
		if !e.advised(what, of, key, free).Holders[0].Lingers {
			e.t.Errorf("%s: it is said to be held", what)
		}
	}
	e.unlock(e.wait(c, key).gets(least + pollInterval + e.soon))
}

func retryAfterFixedLease(e *env) {
	c, key := e.client(), e.key("task")
	const lease = 20 * time.Second
	ctx, held := e.lock(c, key, lockmw.WithFixedLease(lease))
	free := time.Now().Add(lease)
	for what, of := range map[string]*client{"held here": c, "held elsewhere": e.client()} {
		if h := e.advised(what, of, key, free).Holders[0]; !h.Fixed || h.Lingers {
			e.t.Errorf("%s: the holder is %+v", what, h)
		}
	}
	e.unlock(ctx, held)
	e.free(c, key)
}

func retryAfterAnyTime(e *env) {
	c, key := e.client(), e.key("task")
	ctx, held := e.lock(c, key)
	for _, of := range []*client{c, e.client()} {
		if f := e.tried(of, key); f.RetryAfter > time.Second || f.Holders[0].Fixed || f.Holders[0].Lingers {
			e.t.Errorf("to be tried again after %v; the holder is %+v", f.RetryAfter, f.Holders[0])
		}
	}
	e.unlock(ctx, held)
}
