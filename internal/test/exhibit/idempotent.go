package exhibit

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// once returns a Runner whose locks have the name of the exhibit's other locks.
func (e *exhibit) once(opts ...idempotency.Option) *idempotency.Runner {
	name, _, found := strings.Cut(e.key, ":")
	if !found {
		name = "lock"
	}
	return idempotency.New(e.locks, append(opts, idempotency.WithLockOptions(lockmw.WithName(name)))...)
}

// do runs work once for an ID. Scope, ID, request and result begin with the prefix of all keys.
func (e *exhibit) do(ctx context.Context, once *idempotency.Runner, id, request string, work func(context.Context) error) error {
	_, err := idempotency.Do(ctx, once, idempotency.Key{Scope: e.key, ID: e.key + id}, e.key+request, idempotency.Refuse,
		func(ctx context.Context, in string) (string, error) { return in, work(ctx) })
	return err
}

// calls makes calls of package idempotency end in every way but for want of a server.
func (e *exhibit) calls() {
	once, failed := e.once(), errors.New("no stock")
	bodiless, impatient := e.once(idempotency.WithMaxBody(0)), e.once(idempotency.WithWait(0))
	old := e.once(idempotency.WithKeyTime(func(idempotency.Key) (time.Time, bool) { return time.Unix(0, 0), true }))
	succeed := func(context.Context) error { return nil }
	fail := func(context.Context) error { return failed }
	notDone := func(ctx context.Context) error { idempotency.NotDone(ctx); return nil }
	during := func(context.Context) error { // the calls of other callers
		ctx := context.WithoutCancel(lockmw.WithoutHolds(e.Context()))
		e.wants(e.do(ctx, impatient, "/kept", "", succeed), idempotency.ErrInFlight)
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		e.wants(e.do(ctx, once, "/kept", "", succeed), context.Canceled)
		return nil
	}
	for _, call := range []struct {
		once        *idempotency.Runner
		id, request string
		work        func(context.Context) error
		want        error
	}{
		{once, "/kept", "", during, nil},
		{once, "/kept", "", succeed, nil},
		{once, "/kept", "/other", succeed, idempotency.ErrReused},
		{once, "/forgotten", "", notDone, nil},
		{once, "/unfinished", "", fail, failed},
		{once, "/unfinished", "", succeed, idempotency.ErrUnknownOutcome},
		{bodiless, "/done", "", succeed, nil},
		{bodiless, "/done", "", succeed, idempotency.ErrDone},
		{old, "/expired", "", succeed, idempotency.ErrKeyExpired},
	} {
		e.wants(e.do(e.Context(), call.once, call.id, call.request, call.work), call.want)
	}
}

func (e *exhibit) wants(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("a call of package idempotency: %v, want %v", err, want)
	}
}
