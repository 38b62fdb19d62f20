// Package locklog logs slow, failed and lost locks to log/slog: waits and holds that take too long, with the holder of the lock,
// and holds that were lost. It is for programs without tracing, and writes nothing while all goes well.
//
//	locks, err := lockmw.New(rdb, lockmw.WithObserver(locklog.New(nil))) // nil: slog.Default()
//
// Lines show keys unless WithKeyRedactor hides them. The redactor has no effect on the Client's own logger (lockmw.WithLogger).
// Lines are written on the path of the lock: a slog.Handler that blocks delays the lock and its renewals.
//
// # Messages
//
//	WARN   lockmw: still waiting   a call has waited for WithSlowWait, and still waits
//	WARN   lockmw: slow wait       a wait of at least WithSlowWait has ended, with the lock or without
//	WARN   lockmw: lock failed     Redis was unreachable or refused: ErrUnavailable, ErrWrongType
//	WARN   lockmw: failed open     a call continues without the lock (lockmw.WithFailOpen)
//	WARN   lockmw: still held      a hold has lasted for WithLongHold, and continues
//	WARN   lockmw: long hold       a hold of at least WithLongHold was released
//	WARN   lockmw: renewal failed  a lease could not be renewed: only the first failure in a row
//	WARN   lockmw: release failed  the server did not confirm a release: other callers may wait until the lease expires
//	ERROR  lockmw: lock lost       a hold ended before it was released: another holder may run at the same time
//
// The end of a hold is at most one line: a loss or a failed release is logged instead of a long hold. A wait is the whole call:
// if it was slow without another holder, the server was slow. A call that failed for a reason other than Redis is logged only if
// its wait was slow, even if its context ended: the caller gets the error.
//
// While Redis is unavailable there is one line in 10 s for each kind of failure: each error that Redis answers, such as OOM,
// refused connections, and silence. If package httpmw refuses a request because of it, only this line is logged, and none by
// httpmw.
//
// A wait or a hold that continues is logged once, when it reaches the threshold. Calls that wait without a holder in the way wait
// for Redis itself: "still waiting" is logged for only one of them in 10 s.
//
// The long waits and holds of lockmw.Lead and lockmw.Once are not logged, because they are normal. Their failures and losses are.
//
// # Attributes
//
// Attributes are in the groups lock, holder and error. In the second column, "waits" stands for still waiting, slow wait, lock
// failed and failed open, and "holds" for the other messages. Unknown attributes are left out.
//
//	lock.name         all                                           string
//	lock.operation    all                                           lock, try_lock, lead, once
//	lock.mode         all                                           exclusive, fair, read, write, permit
//	lock.key          all                                           string; see WithKeyRedactor
//	lock.label        all                                           string, if there is one (lockmw.WithLabel)
//	lock.token        slow wait, holds                              int, the fencing token
//	lock.waited       waits                                         duration, from the call to its end or to this line
//	lock.outcome      waits but still waiting                       acquired, not_acquired, timeout, deadlock, canceled, error
//	lock.position     waits                                         int, when the wait began; 1 is the next
//	lock.waiters      waits, long hold, release failed              int, length of the queue with this call; for a hold, waiting calls of this process
//	lock.holders      waits                                         int, number of holders in the way; at most 8 are counted
//	lock.held         holds                                         duration, from the grant
//	holder.label      waits                                         string, if the holder has one (lockmw.WithLabel)
//	holder.owner      waits                                         string, identity of the holder
//	holder.process    waits                                         string, host, process id and a random part
//	holder.token      waits                                         int, lock.token in the lines of that hold
//	holder.since      waits                                         time, by the server's clock
//	holder.trace_id   waits                                         string, if the holder also has an observer of package tracing
//	error.type        all but still waiting, still held, long hold  ErrorType of lockmw.Error, if something failed
//	error.message     all but still waiting, still held, long hold  string; not with WithKeyRedactor
//	error.suppressed  lock failed, failed open                      int, number of calls that failed like this since the last such line
//
// The holder is the one that has held the lock longest, as seen when the wait began or when it failed. A process passes a plain lock
// from call to call without writing that to Redis, so that other processes see the first of these calls. slog's handlers write
// durations as text ("1.5s"), or as integers in ns in JSON.
package locklog
