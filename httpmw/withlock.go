package httpmw

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/lockmw"
)

const (
	defaultMaxHold = 5 * time.Minute
	// longestWait ends waits to which nobody gave a limit: the client may be gone for long.
	longestWait = 5 * time.Minute
)

// statusClientGone is what access logs know as "client closed request".
const statusClientGone = 499

// WithLock returns middleware that handles a request under the lock that key names for it. The
// handler's context carries the hold (lockmw.FromContext, lockmw.Held) and ends with cause
// lockmw.ErrLost if the lock is lost. The lock is released when the handler has returned or panicked;
// a panic goes on after that.
//
// It tries once unless lockmw.WithWait says otherwise, and ends a hold after 5 minutes unless
// lockmw.WithMaxHold does. A wait without a limit (lockmw.Forever) ends after 5 minutes. Every method
// is locked unless WithMethods narrows it. When the client goes away during the wait nothing is sent
// to it, and access logs see status 499; see the package comment for the other responses.
//
// WithLock panics if l or key is nil or an option is invalid. What it returns may be used for several
// routes and is safe for concurrent use.
func WithLock(l lockmw.Locker, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	c := newConfig("WithLock", l == nil, key == nil, opts)
	return middleware(&guard[string]{
		config: c,
		key:    key.checked,
		lock: func(ctx context.Context, _ *http.Request, key string) (context.Context, unlocker, error) {
			return l.Lock(ctx, key, c.lock...)
		},
	})
}

// WithRWLock is WithLock with the reading side of l for GET, HEAD and OPTIONS, and the writing side
// for all other methods.
func WithRWLock(l lockmw.RWLocker, key KeyFunc, opts ...Option) func(http.Handler) http.Handler {
	c := newConfig("WithRWLock", l == nil, key == nil, opts)
	reading := l.RLocker()
	return middleware(&guard[string]{
		config: c,
		key:    key.checked,
		lock: func(ctx context.Context, r *http.Request, key string) (context.Context, unlocker, error) {
			switch r.Method {
			case http.MethodGet, http.MethodHead, http.MethodOptions:
				return reading.Lock(ctx, key, c.lock...)
			}
			return l.Lock(ctx, key, c.lock...)
		},
	})
}

// WithLocks is WithLock for several locks at once: the request gets all of them or none. They are
// taken in sorted order, so that requests with overlapping keys do not wait for each other in a
// circle, and lockmw.WithWait limits the wait for all of them together.
func WithLocks(l lockmw.Locker, keys KeysFunc, opts ...Option) func(http.Handler) http.Handler {
	c := newConfig("WithLocks", l == nil, keys == nil, opts)
	return middleware(&guard[[]string]{
		config: c,
		key:    keys.checked,
		lock: func(ctx context.Context, _ *http.Request, keys []string) (context.Context, unlocker, error) {
			return lockmw.LockAll(ctx, l, keys, c.lock...)
		},
	})
}

// An unlocker is a *lockmw.Hold or lockmw.Holds.
type unlocker interface{ Unlock() error }

// A guard handles requests under the lock, or the locks, of a key.
type guard[K any] struct {
	*config
	key  func(*http.Request) (K, error)
	lock func(context.Context, *http.Request, K) (context.Context, unlocker, error)
}

func middleware[K any](g *guard[K]) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httpmw: the handler to lock is nil")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g.methods != nil && !slices.Contains(g.methods, r.Method) {
				next.ServeHTTP(w, r)
				return
			}
			g.serve(w, r, next)
		})
	}
}

func (g *guard[K]) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	key, err := g.key(r)
	if errors.Is(err, lockmw.ErrNoLock) {
		next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		g.fail(w, r, &lockmw.Error{Op: opKey, Err: fmt.Errorf("no key for this request: %w", err)})
		return
	}
	waiting, limit := waitlimit.Start(r.Context(), g.longestWait)
	defer limit.Release()
	ctx, hold, err := g.lock(waiting, r, key)
	if !limit.Stop() {
		err = tooLong(hold, err)
	}
	switch {
	case err == nil:
		g.run(w, r.WithContext(ctx), next, hold)
	case errors.Is(r.Context().Err(), context.Canceled):
		// Without a status this would be a 200: in access logs, and on the wire if it was not the
		// client's going that ended the context.
		w.WriteHeader(statusClientGone)
	default:
		g.fail(w, r, err)
	}
}

// tooLong is the error of a call that had reached the longest wait when it returned.
func tooLong(hold unlocker, err error) error {
	if err == nil { // granted in this instant, with a context that is ending
		err = hold.Unlock()
	} else if errors.Is(err, lockmw.ErrBusy) {
		return err
	}
	busy := fmt.Errorf("%w: no wait is longer than %v", lockmw.ErrBusy, longestWait)
	return &lockmw.Error{Op: "lock", Waited: longestWait, Err: errors.Join(busy, err)}
}

func (g *guard[K]) run(w http.ResponseWriter, r *http.Request, next http.Handler, hold unlocker) {
	w, written := track(w)
	returned := false
	defer func() {
		err := hold.Unlock()
		if !returned || written.Load() {
			return // a panic goes on from here
		}
		if errors.Is(err, lockmw.ErrLost) {
			g.fail(w, r, err)
		} else if errors.Is(err, lockmw.ErrClosed) {
			g.fail(w, r, fmt.Errorf("%w: %w", lockmw.ErrLost, err))
		}
	}()
	next.ServeHTTP(w, r)
	returned = true
}

func (g *guard[K]) fail(w http.ResponseWriter, r *http.Request, err error) {
	if problemOf(err).Status == http.StatusInternalServerError {
		logError(r, err)
	}
	g.onError(w, r, err)
}
