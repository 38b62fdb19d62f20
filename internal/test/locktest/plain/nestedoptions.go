package plain

import (
	"context"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/recording"
	"github.com/lockmw/go/lockmw"
)

var nestedOptions = []env.Scenario{
	env.Case("a maximum hold ends only the nested hold", nestedMaxHold, env.Shares|env.Sample),
	env.Case("a maximum hold ends all contexts below it", belowNestedMaxHold, env.Shares),
	env.Case("an unreached maximum hold has no effect", nestedMaxHoldUnreached, env.Shares),
	env.Case("a minimum hold keeps the key taken", nestedMinHold, env.Excludes|env.Shares|env.Sample),
	env.Case("a contradictory lease or minimum hold is refused", nestedContradictions, env.Shares|env.Sample),
	env.Case("the options of the outer hold are accepted", nestedAgreement, env.Shares),
	env.Case("defaults never contradict the outer hold", nestedDefaults, env.Shares),
}

func nestedMaxHold(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, outer := e.Lock(c, key)
	most := e.Brief()
	start := time.Now()
	inner, hold, err := c.Lock(ctx, key, lockmw.WithMaxHold(most))
	if err != nil {
		e.T.Fatal(err)
	}
	if d := hold.Deadline(); d.After(time.Now().Add(most)) || d.Before(start) {
		e.T.Errorf("the nested hold's deadline is %v away", time.Until(d))
	}
	if !e.Ends(inner) {
		return
	}
	if took := time.Since(start); took < most || e.Pace.Since(start) > most+e.Soon {
		e.T.Errorf("a nested hold with a maximum of %v lasted %v", most, took)
	}
	e.Is("the cause of the nested context's end", context.Cause(inner), lockmw.ErrLost)
	_, err = lockmw.Held(context.WithoutCancel(inner), key)
	e.Is("Held", err, lockmw.ErrLost)
	e.Is("Extend", hold.Extend(ctx, time.Minute), lockmw.ErrLost)
	_, _, err = c.Lock(context.WithoutCancel(inner), key)
	e.Is("a further nested call", err, lockmw.ErrLost)
	e.Is("Unlock of the nested hold", hold.Unlock(), lockmw.ErrLost)
	e.Is("second Unlock", hold.Unlock(), lockmw.ErrNotHeld)
	if err := ctx.Err(); err != nil {
		e.T.Errorf("the outer hold has ended: %v", context.Cause(ctx))
	}
	e.Busy(e.Client(), key)
	e.Unlock(ctx, outer)
	e.Free(e.Client(), key)
}

func belowNestedMaxHold(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, outer := e.Lock(c, key)
	inner, hold, err := c.Lock(ctx, key, lockmw.WithMaxHold(e.Brief()))
	if err != nil {
		e.T.Fatal(err)
	}
	below, other := e.LockWith(inner, c, e.Key("item"))
	if e.Ends(below) {
		e.Is("the cause of the end below", context.Cause(below), lockmw.ErrLost)
	}
	e.Unlock(below, other)
	e.Unlock(ctx, outer)
	e.Busy(e.Client(), key) // the nested hold is not unlocked yet
	e.Is("Unlock of the nested hold", hold.Unlock(), lockmw.ErrLost)
	e.Free(e.Client(), key)
}

func nestedMaxHoldUnreached(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, outer := e.Lock(c, key, lockmw.WithMaxHold(time.Hour))
	for _, most := range []time.Duration{time.Minute, 2 * time.Hour, lockmw.Forever} {
		inner, hold, err := c.Lock(ctx, key, lockmw.WithMaxHold(most))
		if err != nil {
			e.T.Fatal(err)
		}
		if err := inner.Err(); err != nil {
			e.T.Errorf("the context of a nested hold with a maximum of %v has ended: %v", most, context.Cause(inner))
		}
		if d := hold.Deadline(); d.After(outer.Deadline()) {
			e.T.Errorf("the nested hold's deadline is after the outer one's: %v", d)
		}
		if err := hold.Unlock(); err != nil {
			e.T.Error(err)
		}
	}
	e.Unlock(ctx, outer)
}

func nestedMinHold(e *env.Env) {
	c, other, third, key := e.Client(), e.Client().Warm(), e.Client().Warm(), e.Key("user")
	least := e.Ample(400 * time.Millisecond)
	ctx, outer := e.Lock(c, key)
	e.Pass(least / 10) // which does not count
	start := time.Now()
	_, hold, err := c.Lock(ctx, key, lockmw.WithMinHold(least))
	if err != nil {
		e.T.Fatal(err)
	}
	if err := hold.Unlock(); err != nil {
		e.T.Error(err)
	}
	e.Unlock(ctx, outer)
	e.Busy(other, key)
	e.Busy(c, key)
	e.Unlock(e.Wait(third, key).Gets(least + env.PollInterval + e.Soon))
	if took := time.Since(start); took < least {
		e.T.Errorf("the key was free after %v", took)
	}
}

func nestedContradictions(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	refuse := func(ctx context.Context, what string, opts ...lockmw.Option) {
		e.T.Helper()
		inner, hold, err := c.Lock(ctx, key, opts...)
		e.Is(what, err, lockmw.ErrInvalidOption)
		if hold != nil || inner != ctx {
			e.T.Errorf("%s: the refused call returned a hold or another context", what)
		}
	}
	ctx, outer := e.Lock(c, key)
	refuse(ctx, "another lease", lockmw.WithLease(time.Minute))
	refuse(ctx, "a fixed lease", lockmw.WithFixedLease(30*time.Second))
	refuse(ctx, "one of several options", lockmw.WithWait(0), lockmw.JoinOptions(lockmw.WithName("n"), lockmw.WithLease(time.Minute)))
	if c.Reads() {
		refuse(ctx, "a minimum hold of a read lock", lockmw.WithMinHold(time.Second))
	}
	e.Unlock(ctx, outer)
	e.Free(e.Client(), key)
	ctx, outer = e.Lock(c, key, lockmw.WithFixedLease(time.Hour))
	refuse(ctx, "a renewed lease", lockmw.WithLease(time.Hour))
	refuse(ctx, "another fixed lease", lockmw.WithFixedLease(time.Minute))
	e.Unlock(ctx, outer)
	e.Free(e.Client(), key)
}

// nestedAgreement passes the options of the outer call to the nested call.
func nestedAgreement(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	for _, lease := range []lockmw.Option{lockmw.WithLease(time.Hour), lockmw.WithFixedLease(time.Hour)} {
		policy := lockmw.JoinOptions(lease, lockmw.WithMaxHold(time.Minute), lockmw.WithMinHold(time.Millisecond),
			lockmw.WithWait(0), lockmw.WithMaxWaiters(1), lockmw.WithName("n"), lockmw.WithFailOpen(), lockmw.WithObserver(&lockmw.Observer{}))
		ctx, outer := e.Lock(c, key, policy)
		_, hold, err := c.Lock(ctx, key, policy)
		if err != nil {
			e.T.Fatalf("the same options again: %v", err)
		}
		if err := hold.Unlock(); err != nil {
			e.T.Error(err)
		}
		e.Unlock(ctx, outer)
		e.Unlock(eventuallyGets(e, key))
	}
}

// eventuallyGets takes a key that a minimum hold may keep for a moment.
func eventuallyGets(e *env.Env, key string) (context.Context, *recording.Held) {
	e.T.Helper()
	return e.Call(e.Ctx, e.Client().Rival, key).Gets(env.PollInterval + e.Soon)
}

func nestedDefaults(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	ctx, outer := e.Lock(c, key)
	_, hold, err := c.Lock(ctx, key, lockmw.WithDefaults(lockmw.WithLease(time.Minute), lockmw.WithMinHold(time.Hour)))
	if err != nil {
		e.T.Fatalf("defaults of a wrapper: %v", err)
	}
	if err := hold.Unlock(); err != nil {
		e.T.Error(err)
	}
	e.Unlock(ctx, outer)
	e.Free(e.Client(), key)
}
