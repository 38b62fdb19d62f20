package lockmw

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/option"
)

// Do runs fn under key's lock, with a context that carries the hold and ends when it is lost. It waits for
// the lock as Lock does. A panic in fn goes on after the release. If the lock was lost meanwhile, or the Client
// was closed, Do returns an *Error that wraps ErrLost or ErrClosed, and also what fn returned if that is an
// error: another holder may have run at the same time. Otherwise Do returns what fn returned. It does not
// report a release that the server did not confirm, because fn ran alone; observers see it.
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

// lossDuring returns the error of a function that lost its lock and returned an error, or nil.
func lossDuring(h *Hold, lost, returned error) error {
	if returned == nil {
		return lost
	}
	op := "unlock"
	if e, ok := errors.AsType[*Error](lost); ok {
		op, lost = e.Op, e.Err
	}
	if errors.Is(returned, lost) { // it returned the cause of its context's end
		return h.fail(op, returned)
	}
	return h.fail(op, fmt.Errorf("%w; the function returned: %w", lost, returned))
}

// WithLock guards fn with the lock that key names for each input. The returned function tries once
// unless WithWait says otherwise, and returns what Do returns. WithLock panics if an argument is nil
// or CheckOptions returns an error.
func WithLock[In any](l Locker, key KeyFunc[In], fn func(context.Context, In) error, opts ...Option) func(context.Context, In) error {
	if fn == nil {
		panic("lockmw: WithLock: fn is nil")
	}
	locked := WithLockValue(l, key, func(ctx context.Context, in In) (struct{}, error) { return struct{}{}, fn(ctx, in) }, opts...)
	return func(ctx context.Context, in In) error {
		_, err := locked(ctx, in)
		return err
	}
}

// WithLockValue is WithLock for a function with a result.
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
