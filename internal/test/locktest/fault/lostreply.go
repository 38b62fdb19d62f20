package fault

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

var lostReplies = []env.Scenario{
	env.Case("an acquire with a lost reply counts once", lostAcquire, env.OnServer|env.Shares|env.Sample),
	env.Case("a nested acquire sends nothing", lostNested, env.OnServer|env.Shares|env.Sample),
	env.Case("a release with a lost reply does not return ErrNotHeld", lostRelease, env.OnServer|env.Shares|env.Sample),
	env.Case("a renewal with a lost reply keeps the hold", lostRenewal, env.OnServer|env.Shares),
	env.Case("a queued acquire with a lost reply makes one ticket", lostQueueing, env.OnServer|env.OneNode|env.Shares),
	env.Case("a cancel with a lost reply leaves no ticket", lostCancel, env.OnServer|env.Alone),
	env.Case("a lost acquire without retries is undone", lostForGood, env.OnServer|env.OneNode|env.Shares),
	env.Case("a call with time to wait retries a lost acquire", lostAndAskedFor, env.OnServer|env.Shares),
}

func lostAcquire(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	fault := c.Wire.LoseReply(key)
	ctx, held := e.Lock(c, key)
	e.Caught(fault)
	e.Busy(other, key)
	e.Unlock(ctx, held)
	e.Free(other, key)
}

func lostNested(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	ctx, held := e.Lock(c, key)
	fault := c.Wire.LoseReply(key)
	_, nested, err := c.Lock(ctx, key)
	if err != nil {
		e.T.Fatal(err)
	}
	if err := nested.Unlock(); err != nil {
		e.T.Errorf("Unlock of the nested hold: %v", err)
	}
	e.Busy(other, key)
	e.Unlock(ctx, held) // the fault catches this command
	e.Caught(fault)
	e.Free(other, key)
}

func lostRelease(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	for range 10 {
		ctx, held := e.Lock(c, key, lockmw.WithWait(e.Ample(e.Soon)))
		fault := c.Wire.LoseReply(key)
		e.Unlock(ctx, held)
		e.Caught(fault)
		e.Free(other, key)
	}
}

func lostRenewal(e *env.Env) {
	lease := e.Ample(time.Second) // a renewal without an answer is resent after a sixth of it
	c, other, key := e.Client(), e.Client(), e.Key("user")
	renewed := make(chan error, 100)
	ctx, held := e.Lock(c, key, lockmw.WithLease(lease), lockmw.WithObserver(&lockmw.Observer{
		Renewed: func(_ context.Context, _ lockmw.Attempt, err error) { renewed <- err },
	}))
	for range 4 {
		if err := env.Renewal(e, renewed); err != nil {
			e.T.Errorf("renewal: %v", err)
		}
		e.Caught(c.Wire.LoseReply(key))
	}
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the hold has ended: %v", context.Cause(ctx))
	}
	e.Busy(other, key)
	e.Unlock(ctx, held)
	e.Free(other, key)
}

func lostQueueing(e *env.Env) {
	c, other, key := e.Client().Warm(), e.Client(), e.Key("user")
	ctx, held := e.Lock(other, key)
	fault := c.Wire.LoseReply(key)
	w := e.Wait(c, key)
	e.Caught(fault)
	e.Eventually(env.Patience, func() string { // the retry may still be in flight
		if n := e.Server.Admin.ZCard(e.Ctx, e.Server.QueueKey(key)).Val(); n != 1 {
			return "want one ticket"
		}
		return ""
	})
	e.Unlock(ctx, held)
	e.Unlock(w.Gets(e.Soon))
	e.Free(other, key)
}

func lostCancel(e *env.Env) {
	c, other := e.Client().Warm(), e.Client()
	for range 2 { // the first time, the lost reply is NOSCRIPT
		losesCancel(e, c, other, e.Key("user"))
	}
}

func losesCancel(e *env.Env, c, other *env.Client, key string) {
	e.T.Helper()
	ctx, held := e.Lock(other, key)
	w := e.Wait(c, key)
	e.Eventually(env.Patience, func() string {
		if e.Server.Admin.ZCard(e.Ctx, e.Server.QueueKey(key)).Val() != 1 {
			return "want one ticket"
		}
		return ""
	})
	fault := c.Wire.LoseReply(key)
	w.Cancel()
	w.Fails(e.Soon, context.Canceled)
	e.Caught(fault)
	e.Unlock(ctx, held)
	e.Free(other, key)
}

func lostForGood(e *env.Env) {
	once := func(o *redis.Options) { o.MaxRetries = -1 }
	c, other, key := e.ClientOver(once).Warm(), e.Client(), e.Key("user")
	faults := []*redistest.Fault{c.Wire.LoseReply(key), c.Wire.LoseReply(key)} // the Client may retry once
	_, hold, err := c.Lock(e.Ctx, key, lockmw.WithWait(0))
	if err == nil {
		e.T.Fatalf("both replies are lost, but TryLock took the lock: %v", hold.Unlock())
	}
	e.Is("TryLock with lost replies", err, lockmw.ErrUnavailable)
	if errors.Is(err, lockmw.ErrBusy) {
		e.T.Errorf("a connection error is reported as a busy lock: %v", err)
	}
	for _, fault := range faults {
		e.Caught(fault)
	}
	e.Free(other, key)
}

func lostAndAskedFor(e *env.Env) {
	once := func(o *redis.Options) { o.MaxRetries = -1 }
	c, other, key := e.ClientOver(once).Warm(), e.Client(), e.Key("user")
	faults := []*redistest.Fault{c.Wire.LoseReply(key), c.Wire.LoseReply(key), c.Wire.LoseReply(key)}
	e.Unlock(e.Lock(c, key))
	for _, fault := range faults {
		e.Caught(fault)
	}
	e.Free(other, key)
}
