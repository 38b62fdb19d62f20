package httpmw

import (
	"context"
	"net/http"

	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/lockmw"
)

// WithLock returns middleware that runs the handler under the lock whose key the function key returns. The handler's context
// carries the hold (lockmw.FromContext, lockmw.Held) and ends with cause lockmw.ErrLost if the lock is lost. The lock is
// released when the handler returns or panics; a panic then continues.
//
// The defaults are:
//
//   - The middleware tries once. lockmw.WithWait lets requests wait; a wait without a limit (lockmw.Forever) ends after 5 minutes.
//   - A hold ends after 5 minutes. lockmw.WithMaxHold changes this.
//   - All methods are locked. WithMethods locks only some.
//   - If chi's middleware.RequestID runs before, the request ID is the label of the hold. It is cut to 100 bytes, and
//     characters other than printable ASCII become '_'. lockmw.WithLabel sets another label.
//
// A request that is cancelled without a cause while it waits, for example because its client disconnects, gets status 499
// without a body, for access logs. docs/http.md lists the other responses.
//
// WithLock panics if l or key is nil or an option is invalid. lockmw.WithPlace is invalid here, because all requests would share
// one place in the queue. The middleware may be used for several routes and is safe for concurrent use.
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

// WithRWLock is WithLock with a read lock for GET, HEAD and OPTIONS, and a write lock for all other methods.
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

// WithLockAll is WithLock for several locks together: the request gets all of them or none. It takes them in sorted order, so
// that requests with overlapping keys do not deadlock. lockmw.WithWait limits the wait for all of them together.
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
