package lockmw

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
)

// Do runs fn under key's lock, with a context that carries the hold and ends when the lock is lost. It waits for the lock as Lock
// does. If Do does not get the lock, it returns an *Error and does not call fn. A panic in fn continues after the release.
//
// If the lock was lost while fn ran, or the Client was closed, Do returns an *Error that wraps ErrLost or ErrClosed, and the
// error of fn if there is one: another holder may have run at the same time. Otherwise Do returns the result of fn. A release
// that the server did not confirm is not an error, because fn ran alone; observers receive it.
func Do(ctx context.Context, l Locker, key string, fn func(context.Context) error, opts ...Option) error {
	if option.IsNil(l) || fn == nil {
		return &Error{Op: "lock", Key: key, Err: errNilArgument}
	}
	_, err := do(ctx, l, key, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }, opts)
	return err
}

func do[Out any](ctx context.Context, l Locker, key string, fn func(context.Context) (Out, error), opts []Option) (out Out, err error) {
	ctx, hold, err := l.Lock(ctx, key, opts...)
	if err != nil {
		return out, err
	}
	defer func() {
		if lost := hold.Unlock(); core.IsLoss(lost) {
			err = lossDuring(hold, lost, err)
		}
	}()
	return fn(ctx)
}

// lossDuring joins the loss of a lock with the error that the function returned, if any.
func lossDuring(h *Hold, lost, returned error) error {
	if returned == nil {
		return lost
	}
	op := "unlock"
	if e, ok := errors.AsType[*Error](lost); ok {
		op, lost = e.Op, e.Err
	}
	if errors.Is(returned, lost) { // the function returned the cause of its context
		return h.fail(op, returned)
	}
	return h.fail(op, fmt.Errorf("%w; the function returned: %w", lost, returned))
}

// WithLock returns a function that runs fn under the lock whose key is made of each input. The returned function does not wait
// for the lock unless WithWait is set. It returns the errors of Do, and an *Error with Op "key" if key fails; if key returns
// ErrNoLock, it runs fn without a lock. WithLock panics if an argument is nil or CheckOptions returns an error.
func WithLock[In any](l Locker, key KeyFunc[In], fn func(context.Context, In) error, opts ...Option) func(context.Context, In) error {
	option.NotNil(fn, "lockmw: WithLock: fn is nil")
	locked := WithLockValue(l, key, func(ctx context.Context, in In) (struct{}, error) { return struct{}{}, fn(ctx, in) }, opts...)
	return func(ctx context.Context, in In) error {
		_, err := locked(ctx, in)
		return err
	}
}

// WithLockValue is WithLock for a function with a result. If fn was not called, the result is the zero value.
func WithLockValue[In, Out any](l Locker, key KeyFunc[In], fn func(context.Context, In) (Out, error), opts ...Option) func(context.Context, In) (Out, error) {
	if option.IsNil(l) || key == nil || fn == nil {
		panic("lockmw: WithLock: an argument is nil")
	}
	if err := CheckOptions(l, opts...); err != nil {
		panic(err)
	}
	opts = append([]Option{WithDefaults(WithWait(0))}, opts...)
	return func(ctx context.Context, in In) (Out, error) {
		k, err := key(ctx, in)
		if errors.Is(err, ErrNoLock) {
			return fn(ctx, in)
		}
		if err != nil {
			var none Out
			return none, &Error{Op: "key", Err: fmt.Errorf("no key for this input: %w", err)}
		}
		return do(ctx, l, k, func(ctx context.Context) (Out, error) { return fn(ctx, in) }, opts)
	}
}
