// Package httpmw puts a lock around the handling of a request, keyed by what the request is about:
// two requests for the same user run one after the other, or the second is refused, on however many
// servers they arrive.
//
//	r := chi.NewRouter()
//	r.Use(middleware.Recoverer, authenticate, middleware.Timeout(30*time.Second))
//	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")))).
//		Post("/users/{userID}/orders", create)
//
// The order matters: recovery, authentication, timeout, lock. URL parameters exist only after chi has
// found the route: mount the lock with r.With, r.Group or inside r.Route, not with r.Use at the top.
//
// A request that does not get its lock is answered with application/problem+json: 409 if the lock is
// busy, 503 after a wait or if Redis is unavailable. WithErrorHandler replaces that. The statuses, the
// place among other middleware, waits and shutdown are described in [docs/http.md].
//
// # What can go wrong
//
// The lock can be lost while the handler runs: Redis was away for longer than the lease, the process
// was stopped, the maximum hold of 5 minutes is over. Then the request's context ends with cause
// lockmw.ErrLost. A handler that does not watch its context may run at the same time as the next. If it
// has not begun to answer, its success is not sent any more. Work that must not happen twice checks
// the fencing token where it writes: see lockmw.Hold.Token and lockmw.Held.
//
// A slow client keeps the lock while its handler reads or writes, until the handler's context ends: mount a timeout outside.
// See the section on slow clients in [docs/http.md].
//
// A request that may wait is read first if its body is small. A server notices that a client of HTTP/1 has gone only when
// the body has been read: with a longer or chunked one, a wait does not end when the client leaves. Give it a limit with
// lockmw.WithWait; where there is none, the wait ends after 5 minutes.
//
// [docs/http.md]: https://github.com/lockmw/go/blob/main/docs/http.md
package httpmw
