package plain

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var endedContexts = []env.Scenario{
	env.Case("a call with an ended context returns ErrNotRequested, not ErrBusy", endedBefore, env.Shares|env.Sample),
	env.Case("a call with a lost hold's context returns ErrLost for every key", endedByLoss, env.Shares|env.Sample),
	env.Case("a hold that is lost during a wait makes the wait return ErrLost", lossDuringWait, env.Excludes|env.Shares),
	env.Case("a call with an unlocked hold's context does not return ErrLost", endedByUnlock, env.Shares),
}

// notRequested checks the error of a call whose context had already ended.
func notRequested(e *env.Env, what string, err error, want ...error) {
	e.T.Helper()
	e.Is(what, err, append(want, lockmw.ErrNotRequested)...)
	for _, wrong := range []error{lockmw.ErrBusy, lockmw.ErrUnavailable} {
		if errors.Is(err, wrong) {
			e.T.Errorf("%s: %v; must not wrap %q", what, err, wrong)
		}
	}
	if failure, ok := errors.AsType[*lockmw.Error](err); !ok || failure.ErrorType() == "lock_error" || failure.Waited != 0 {
		e.T.Errorf("%s: %+v; want an *Error with a type and without a wait", what, failure)
	}
}

func endedBefore(e *env.Env) {
	c, key := e.Client(), e.Key("user")
	cancelled, cancel := context.WithCancel(e.Ctx)
	cancel()
	late, cancel := context.WithDeadline(e.Ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, wait := range []time.Duration{0, time.Second, lockmw.Forever} {
		_, _, err := e.Rec.Lock(cancelled, c, key, lockmw.WithWait(wait))
		notRequested(e, "with a cancelled context", err, context.Canceled)
		_, _, err = e.Rec.Lock(late, c, key, lockmw.WithWait(wait), lockmw.WithFailOpen())
		notRequested(e, "after the context's deadline", err, context.DeadlineExceeded)
		if errors.Is(err, lockmw.ErrLost) {
			e.T.Errorf("the error reports a lost lock: %v", err)
		}
	}
}

func endedByLoss(e *env.Env) {
	c := e.Client()
	ctx, held := e.Lock(c, e.Key("user"), lockmw.WithMaxHold(env.MinLease))
	if !e.Ends(ctx) {
		return
	}
	_, _, err := e.Rec.Lock(ctx, c, e.Key("item"))
	notRequested(e, "with a lost hold's context", err, context.Canceled, lockmw.ErrLost)
	below, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	_, _, err = lockmw.LockAll(below, c, []string{e.Key("item"), e.Key("item")})
	notRequested(e, "below a lost hold's context", err, context.Canceled, lockmw.ErrLost)
	e.Lost(ctx, held)
}

func lossDuringWait(e *env.Env) {
	c, key := e.Client(), e.Key("item")
	inTheWay, other := e.Lock(c, key)
	ctx, held := e.Lock(c, e.Key("user"), lockmw.WithMaxHold(e.Brief()))
	w := e.WaitWith(ctx, c, key)
	w.Fails(e.Brief()+e.Soon, lockmw.ErrBusy, context.Canceled, lockmw.ErrLost)
	e.Lost(ctx, held)
	e.Unlock(inTheWay, other)
}

func endedByUnlock(e *env.Env) {
	c := e.Client()
	ctx, held := e.Lock(c, e.Key("user"))
	e.Unlock(ctx, held)
	_, _, err := e.Rec.Lock(ctx, c, e.Key("item"))
	notRequested(e, "with an unlocked hold's context", err, context.Canceled)
	if errors.Is(err, lockmw.ErrLost) {
		e.T.Errorf("the error reports a lost lock: %v", err)
	}
}
