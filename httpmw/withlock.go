package httpmw

import (
	"context"
	"net/http"

	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/lockmw"
)

// WithLock returns middleware that handles a request under the lock that key names for it. The
// handler's context carries the hold (lockmw.FromContext, lockmw.Held) and ends with cause
// lockmw.ErrLost if the lock is lost. The lock is released when the handler has returned or panicked;
// a panic goes on after that.
//
// It tries once unless lockmw.WithWait says otherwise, and ends a hold after 5 minutes unless
// lockmw.WithMaxHold does. A wait without a limit (lockmw.Forever) ends after 5 minutes. Every method
// is locked unless WithMethods narrows it. A request that is cancelled without a cause while it waits, for
// example because its client goes away, gets status 499 without a body, for access logs. docs/http.md
// lists the other responses.
//
// If chi's middleware.RequestID ran before, the request's id is the label of the hold (lockmw.WithLabel), cut to 100
// bytes, and with '_' for what is not printable ASCII.
//
// WithLock panics if l or key is nil or an option is invalid. lockmw.WithPlace is invalid: all requests
// would share one place in the queue. The middleware may be used for several routes and is safe for
// concurrent use.
func WithLock(l lockmw.Locker, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	c := newConfig("WithLock", l, key == nil, opts)
	return guarding(&guard[string]{
		config: c,
		key:    key.checked,
		lock: func(ctx context.Context, _ *http.Request, key string, opts []lockmw.Option) (context.Context, waitlimit.Unlocker, error) {
			return l.Lock(ctx, key, opts...)
		},
	})
}

// WithRWLock is WithLock with the reading side of l for GET, HEAD and OPTIONS, and the writing side
// for all other methods.
func WithRWLock(l lockmw.RWLocker, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	c := newConfig("WithRWLock", l, key == nil, opts)
	reading := l.RLocker()
	return guarding(&guard[string]{
		config: c,
		key:    key.checked,
		lock: func(ctx context.Context, r *http.Request, key string, opts []lockmw.Option) (context.Context, waitlimit.Unlocker, error) {
			switch r.Method {
			case http.MethodGet, http.MethodHead, http.MethodOptions:
				return reading.Lock(ctx, key, opts...)
			}
			return l.Lock(ctx, key, opts...)
		},
	})
}

// WithLockAll is WithLock for several locks together: the request gets all of them or none. They are
// taken in sorted order, so that requests with overlapping keys do not wait for each other in a
// circle, and lockmw.WithWait limits the wait for all of them together.
func WithLockAll(l lockmw.Locker, keys KeysFunc, opts ...Option) func(http.Handler) http.Handler {
	c := newConfig("WithLockAll", l, keys == nil, opts)
	return guarding(&guard[[]string]{
		config: c,
		key:    keys.checked,
		lock: func(ctx context.Context, _ *http.Request, keys []string, opts []lockmw.Option) (context.Context, waitlimit.Unlocker, error) {
			return lockmw.LockAll(ctx, l, keys, opts...)
		},
	})
}
