package locktest

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/lockmw"
)

var guarded = []scenario{
	{"that stops at a loss returns the loss and its own error", func(e *env) {
		e.stopsAtLoss(lockmw.ErrLost, func(*client) {}, lockmw.WithMaxHold(brief))
	}, shares | sample},
	{"that stops at Close returns that and its own error", func(e *env) {
		e.stopsAtLoss(lockmw.ErrClosed, func(c *client) {
			if err := c.redis.Close(); err != nil {
				e.t.Errorf("Close: %v", err)
			}
		})
	}, server | shares},
	{"returns its own error alone if there was no loss", ownError, shares | sample},
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

// stopsAtLoss runs a function whose lock ends with the error want, and which returns that its context has
// ended.
func (e *env) stopsAtLoss(want error, lose func(*client), opts ...lockmw.Option) {
	for name, guard := range guards {
		c, mine := e.client(), errors.New("stopped half-way")
		err := guard(e.ctx, c, e.key("user"), func(ctx context.Context) error {
			lose(c)
			if !e.ends(ctx) {
				return nil
			}
			return errors.Join(mine, ctx.Err())
		}, opts...)
		e.is(name, err, want, mine, context.Canceled)
		if _, ok := errors.AsType[*lockmw.Error](err); !ok {
			e.t.Errorf("%s: %v is no *Error", name, err)
		}
	}
}

func ownError(e *env) {
	for name, guard := range guards {
		mine := errors.New("sold out")
		if err := guard(e.ctx, e.client(), e.key("user"), func(context.Context) error { return mine }, lockmw.WithMaxHold(time.Hour)); err != mine { //nolint:errorlint // the very error
			e.t.Errorf("%s returns %v", name, err)
		}
	}
}
