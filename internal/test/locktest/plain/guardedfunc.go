package plain

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/lockmw"
)

var guarded = []env.Scenario{
	env.Case("a function that stops at a loss returns ErrLost and its own error", func(e *env.Env) {
		stopsAtLoss(e, lockmw.ErrLost, func(*env.Client) {}, lockmw.WithMaxHold(e.Brief()))
	}, env.Shares|env.Sample),
	env.Case("a function that stops at Close returns ErrClosed and its own error", func(e *env.Env) {
		stopsAtLoss(e, lockmw.ErrClosed, func(c *env.Client) {
			if err := c.Close(); err != nil {
				e.T.Errorf("Close: %v", err)
			}
		})
	}, env.OnServer|env.Shares),
	env.Case("a function returns only its own error without a loss", ownError, env.Shares|env.Sample),
}

// guards are the ways to run a function under a lock.
var guards = map[string]func(context.Context, lockmw.Locker, string, func(context.Context) error, ...lockmw.Option) error{
	"Do": lockmw.Do,
	"WithLock": func(ctx context.Context, l lockmw.Locker, key string, fn func(context.Context) error, opts ...lockmw.Option) error {
		return lockmw.WithLock(l, itself, func(ctx context.Context, _ string) error { return fn(ctx) }, opts...)(ctx, key)
	},
	"WithLockValue": func(ctx context.Context, l lockmw.Locker, key string, fn func(context.Context) error, opts ...lockmw.Option) error {
		_, err := lockmw.WithLockValue(l, itself, func(ctx context.Context, _ string) (int, error) { return 0, fn(ctx) }, opts...)(ctx, key)
		return err
	},
}

// itself is a KeyFunc for inputs that are keys.
func itself(_ context.Context, key string) (string, error) { return key, nil }

// stopsAtLoss runs functions whose holds end with the error want. Each returns its context's error and its own.
func stopsAtLoss(e *env.Env, want error, lose func(*env.Client), opts ...lockmw.Option) {
	var wg sync.WaitGroup
	for name, guard := range guards {
		c, mine := e.Client(), errors.New("stopped half-way")
		wg.Go(func() {
			err := guard(e.Ctx, c, e.Key("user"), func(ctx context.Context) error {
				lose(c)
				if !e.Ends(ctx) {
					return nil
				}
				return errors.Join(mine, ctx.Err())
			}, opts...)
			e.Is(name, err, want, mine, context.Canceled)
			if _, ok := errors.AsType[*lockmw.Error](err); !ok {
				e.T.Errorf("%s: %v is not an *Error", name, err)
			}
		})
	}
	wg.Wait()
}

func ownError(e *env.Env) {
	for name, guard := range guards {
		mine := errors.New("sold out")
		if err := guard(e.Ctx, e.Client(), e.Key("user"), func(context.Context) error { return mine }, lockmw.WithMaxHold(time.Hour)); err != mine { //nolint:errorlint // the identical error
			e.T.Errorf("%s returns %v", name, err)
		}
	}
}
