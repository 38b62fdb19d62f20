// Package httpmw runs one HTTP request at a time for each user, item or tenant: WithLock puts a lock in Redis around a handler,
// keyed by a part of the request. A second request for the same user waits or is refused, whichever server it reaches.
//
//	r := chi.NewRouter()
//	r.Use(middleware.Recoverer, authenticate, middleware.Timeout(30*time.Second))
//	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")))).
//		Post("/users/{userID}/orders", create)
//
// The order matters: recovery, authentication, timeout, lock. chi sets URL parameters only after it has matched the route.
// Mount the lock with r.With, with r.Group or inside r.Route, not with r.Use at the top.
//
// A request that does not get its lock receives application/problem+json: 409 if the lock is busy, 503 after a wait or if Redis
// is unavailable. WithErrorHandler replaces this response. [docs/http.md] describes the statuses, the place among other
// middleware, waits and shutdown.
//
// Idempotent runs the work of an Idempotency-Key once, and gives every repetition the first answer: see [docs/idempotency.md].
//
// # What can go wrong
//
// The lock can be lost while the handler runs: Redis was unavailable for longer than the lease, the process was stopped, or
// the maximum hold of 5 minutes has ended. The request's context then ends with cause lockmw.ErrLost. A handler that does not
// watch its context may overlap with the next one. If it has not begun to answer, its success is not sent. Work that must not
// happen twice checks the fencing token where it writes: see lockmw.Hold.Token and lockmw.Held.
//
// A slow client keeps the lock while its handler reads or writes, until the handler's context ends. Mount a timeout outside the
// lock; see the section on slow clients in [docs/http.md].
//
// A small body is read before its request waits for the lock. An HTTP/1 server notices a disconnect only after it has read the
// body. With a longer or chunked body, a wait does not end when the client disconnects: limit it with lockmw.WithWait. A wait
// without a limit ends after 5 minutes.
//
// [docs/idempotency.md]: https://github.com/lockmw/go/blob/main/docs/idempotency.md
// [docs/http.md]: https://github.com/lockmw/go/blob/main/docs/http.md
package httpmw
