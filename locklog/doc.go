// Package locklog logs what goes wrong with locks to log/slog, for programs without tracing: waits and
// holds that take too long, with who held the lock, and holds that were lost.
//
//	locks, err := lockmw.New(rdb, lockmw.WithObserver(locklog.New(nil))) // nil: slog.Default()
//
// What can go wrong: lines show keys, unless WithKeyRedactor says otherwise; that does not concern the
// Client's own logger (lockmw.WithLogger). Lines are written on the path of the lock: a slog.Handler that
// blocks delays the lock and its renewals.
//
// # Messages
//
//	WARN   lockmw: still waiting   a call has waited for WithSlowWait, and goes on
//	WARN   lockmw: slow wait       a wait of at least WithSlowWait is over, with the lock or without
//	WARN   lockmw: lock failed     Redis could not be reached, or refused: ErrUnavailable, ErrWrongType
//	WARN   lockmw: failed open     a call goes on without a lock (lockmw.WithFailOpen)
//	WARN   lockmw: still held      a hold has lasted for WithLongHold, and goes on
//	WARN   lockmw: long hold       a hold of at least WithLongHold was released
//	WARN   lockmw: renewal failed  a lease could not be renewed: the first time in a row
//	WARN   lockmw: release failed  the server did not confirm a release: others may wait until the lease ends
//	ERROR  lockmw: lock lost       a hold ended before it was released: somebody else may run at the same time
//
// A hold ends with one line at most: a loss or a failed release is logged rather than a long hold. A wait
// is the whole call: if it was slow though nobody else had the lock, the server was slow. A call that
// failed for another reason than Redis is logged only if its wait was slow, also if its context ended; the
// error is for the caller. While Redis is away there is one line in 10 s for each kind of failure: for what Redis
// answers, such as OOM, for connections that are refused, and for silence. A request that package httpmw refuses then has
// this line, and none of httpmw's.
//
// A wait and a hold that go on are logged once, when the threshold is reached. Calls that wait though nobody was seen
// in their way wait for Redis itself: "still waiting" is logged for one of them in 10 s.
//
// # Attributes
//
// They are in the groups lock, holder and error. Below, waits are still waiting, slow wait, lock failed and failed
// open; holds are the other messages. What is not known is left out.
//
//	lock.name         all                                           string
//	lock.operation    all                                           lock, try_lock, lead, once
//	lock.mode         all                                           exclusive, fair, read, write, permit
//	lock.key          all                                           string; see WithKeyRedactor
//	lock.label        all                                           string, if there is one (lockmw.WithLabel)
//	lock.token        slow wait, holds                              int, the fencing token
//	lock.waited       waits                                         duration, from the call to its end, or to the line
//	lock.outcome      waits but still waiting                       acquired, not_acquired, timeout, deadlock, canceled, error
//	lock.position     waits                                         int, when the wait began; 1 is the next
//	lock.waiters      waits, long hold, release failed              int, the queue with this call; of a hold, who waits in this process
//	lock.holders      waits                                         int, how many were in the way; at most 8 are seen
//	lock.held         holds                                         duration, from the grant
//	holder.label      waits                                         string, if there is one: of the same
//	holder.owner      waits                                         string, of the one in the way who held the lock longest
//	holder.process    waits                                         string: its host, process id and a random part
//	holder.token      waits                                         int, lock.token in the lines of that hold
//	holder.since      waits                                         time, by the server's clock
//	holder.trace_id   waits                                         string, if it has package tracing's observer, too
//	error.type        all but still waiting, still held, long hold  lockmw.Error's ErrorType, if something failed
//	error.message     all but still waiting, still held, long hold  string; not with WithKeyRedactor
//	error.suppressed  lock failed, failed open                      int, how many calls failed like this since the last such line
//
// The holder is the one that was seen when the wait began, or when it failed. slog's handlers write durations as
// text ("1.5s") or, in JSON, as integers in ns.
package locklog
