package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/lockmw"
)

var endedContexts = []scenario{
	{"requests nothing and is not busy", endedBefore, shares | sample},
	{"of a lost hold is a loss for every key", endedByLoss, shares | sample},
	{"of a hold that is lost during a wait is a loss", lossDuringWait, excludes | shares},
	{"of an unlocked hold is no loss", endedByUnlock, shares},
}

// notRequested checks the error of a call with a context that had ended.
func (e *env) notRequested(what string, err error, want ...error) {
	e.t.Helper()
	e.is(what, err, append(want, lockmw.ErrNotRequested)...)
	for _, wrong := range []error{lockmw.ErrBusy, lockmw.ErrUnavailable} {
		if errors.Is(err, wrong) {
			e.t.Errorf("%s: %v; want no error that wraps %q", what, err, wrong)
		}
	}
	if failure, ok := errors.AsType[*lockmw.Error](err); !ok || failure.ErrorType() == "lock_error" || failure.Waited != 0 {
		e.t.Errorf("%s: %+v; want an *Error with a type, of no wait", what, failure)
	}
}

func endedBefore(e *env) {
	c, key := e.client(), e.key("user")
	cancelled, cancel := context.WithCancel(e.ctx)
	cancel()
	late, cancel := context.WithDeadline(e.ctx, time.Now().Add(-time.Second))
	defer cancel()
	for _, wait := range []time.Duration{0, time.Second, lockmw.Forever} {
		_, _, err := e.rec.Lock(cancelled, c, key, lockmw.WithWait(wait))
		e.notRequested("with a cancelled context", err, context.Canceled)
		_, _, err = e.rec.Lock(late, c, key, lockmw.WithWait(wait), lockmw.WithFailOpen())
		e.notRequested("after the context's deadline", err, context.DeadlineExceeded)
		if errors.Is(err, lockmw.ErrLost) {
			e.t.Errorf("no lock was lost: %v", err)
		}
	}
}

func endedByLoss(e *env) {
	c := e.client()
	ctx, held := e.lock(c, e.key("user"), lockmw.WithMaxHold(minLease))
	if !e.ends(ctx) {
		return
	}
	_, _, err := e.rec.Lock(ctx, c, e.key("item"))
	e.notRequested("with a lost hold's context", err, context.Canceled, lockmw.ErrLost)
	below, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	_, _, err = lockmw.LockAll(below, c, []string{e.key("item"), e.key("item")})
	e.notRequested("below a lost hold's context", err, context.Canceled, lockmw.ErrLost)
	e.lost(ctx, held)
}

func lossDuringWait(e *env) {
	c, key := e.client(), e.key("item")
	inTheWay, other := e.lock(c, key)
	ctx, held := e.lock(c, e.key("user"), lockmw.WithMaxHold(brief))
	w := e.waitWith(ctx, c, key)
	w.fails(brief+e.soon, lockmw.ErrBusy, context.Canceled, lockmw.ErrLost)
	e.lost(ctx, held)
	e.unlock(inTheWay, other)
}

func endedByUnlock(e *env) {
	c := e.client()
	ctx, held := e.lock(c, e.key("user"))
	e.unlock(ctx, held)
	_, _, err := e.rec.Lock(ctx, c, e.key("item"))
	e.notRequested("with an unlocked hold's context", err, context.Canceled)
	if errors.Is(err, lockmw.ErrLost) {
		e.t.Errorf("no lock was lost: %v", err)
	}
}
