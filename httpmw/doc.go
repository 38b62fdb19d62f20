// Package httpmw puts a lock around the handling of a request, keyed by what the request is about:
// two requests for the same user run one after the other, or the second is refused, on however many
// servers they arrive.
//
//	r := chi.NewRouter()
//	r.Use(middleware.Recoverer, authenticate, middleware.Timeout(30*time.Second))
//	r.With(httpmw.WithLock(locks, httpmw.By("user", httpmw.URLParam("userID")))).
//		Post("/users/{userID}/orders", create)
//
// The order matters: Recoverer → auth → Timeout → lock. Recoverer comes first, so that a panic has
// passed the lock, which is released by it, before it becomes a response. Auth comes before the lock,
// so that strangers cannot take a user's lock, and Claim finds the identity that auth stored. Timeout
// comes before it too, so that it limits the wait as well as the work. The lock comes last, so that
// it is held for nothing but the handler. URL parameters exist only after chi has found the route:
// mount the lock with r.With, r.Group or inside r.Route, not with r.Use at the top.
//
// Inside of the lock, http.TimeoutHandler would return while its handler still runs, and the lock would
// be released too early: both it and chi's Timeout belong outside. Let the wait be shorter than the
// timeout. A wait that the timeout ends is answered as one that was in vain; chi's Timeout then writes a
// 504 of its own, which is too late: the client does not see it, but net/http logs a superfluous
// WriteHeader. Let the wait be shorter than http.Server.WriteTimeout too: else the handler runs, but its
// response cannot be delivered.
//
// # What a client gets
//
//	busy, no wait asked for              409  lock-busy
//	still busy after the wait            503  lock-timeout
//	WithMaxWaiters reached               503  lock-too-many-waiters
//	Redis unavailable, or it refuses;    503  lock-unavailable, logged with slog
//	Client closed
//	cancelled by the server, with a      503  lock-unavailable
//	cause, while it waited
//	key missing or not valid             400  lock-invalid-key
//	Claim found no identity              401  lock-no-claim
//	lock lost, and the handler has not   500  lock-lost, logged with slog
//	begun to answer
//	lock lost after that, or answered    the handler's response; the loss
//	by the handler with its own error    is logged with slog
//	URLParam without its route, a key    500  about:blank, logged with slog
//	function that fails, and whatever
//	else is a bug
//	cancelled without a cause while it   499  in access logs, without a body
//	waited: the client is gone
//
// The body is application/problem+json with type, title, status, detail and retry_after_ms. It never
// contains the key or the words of an internal error. 409 and 503 carry Retry-After. WithErrorHandler
// replaces all of it.
//
// In tests lockmw.LockerFunc fakes each of these with the error of lockmw. Busy after a wait is told by
// lockmw.Error.Waited: a fake ErrBusy without it is a 409 whatever lockmw.WithWait says.
//
// # What can go wrong
//
// The lock can be lost while the handler runs: Redis was away for longer than the lease, the process
// was stopped, the maximum hold of 5 minutes is over. Then the request's context ends with cause
// lockmw.ErrLost. A handler that watches its context stops; one that does not may run at the same
// time as the next. If it has not begun to answer, a success of its own (a status below 400, a body, a
// flush) is not sent any more: writing fails with the cause, as does taking over the connection, and the
// client gets the status above. The handler's cookies, its Location and the headers that describe its
// content are withdrawn; others stay. Its own error, and a response that has begun, are left alone. Work
// that must not happen twice checks the fencing token where it writes: see lockmw.Hold.Token and
// lockmw.Held.
//
// The lock is released when the handler returns, also if it has taken over the connection. A client may
// have read all of a response by then, if it was flushed or is longer than the server's buffer of a few
// kilobytes, and find the lock busy when it sends the next request, by HTTP/2 or on another connection:
// a short lockmw.WithWait helps. If the same key is locked again further down, it stays taken until the
// last hold is unlocked or the maximum hold is over.
//
// A server notices that a client has gone only when the request's body has been read, so that for
// many a POST the request's context does not end the wait. Give a wait a limit with lockmw.WithWait;
// where there is none, the wait ends after 5 minutes. http.MaxBytesReader cannot close the connection
// from inside of the lock: put http.MaxBytesHandler outside.
//
// # How long Redis may take
//
// A request without lockmw.WithWait gives up when Redis has not answered for 2 seconds, one with it when
// the wait is over; a refused connection or the time-outs of go-redis, with its defaults about 10
// seconds, end it sooner. That is a 503, or the handler without a lock, if lockmw.WithFailOpen was asked
// for. A request whose context ends sooner does not fail open: keep its timeout longer than that.
//
// Failing open is for taking the lock only. An outage that is longer than the lease ends the context of a
// handler that has the lock, as any loss does; one that runs without a lock has no maximum hold.
//
// When the handler has returned, the release waits for a silent Redis for 2 seconds
// (lockmw.WithUnlockTimeout), and what the server has not sent yet of the response waits with it.
//
// # Shutdown
//
// First http.Server.Shutdown, which waits for the requests, then the lock Client's Shutdown or Close,
// then the Close of the redis client. A Client that is closed earlier ends the locks of running handlers
// with cause lockmw.ErrClosed, which is answered as a loss.
//
// Requests that wait for a lock keep http.Server.Shutdown waiting, for 5 minutes where the wait has no
// limit. The Client's Shutdown, called meanwhile, ends these waits with a 503. From then on it grants no
// further lock, to a handler that runs neither; those that are held stay until their handlers return.
package httpmw
