package lockmw

import (
	"context"
	"time"
)

// An Observer receives callbacks about locks: how long calls wait, for which holders, and how holds end. It is for traces,
// metrics and logs: packages tracing, locklog and lockevents are observers. Any callback may be nil, as in
// httptrace.ClientTrace.
//
// Callbacks must be safe for concurrent use. They must be quick, because calls for the lock wait for them, and must not call
// Client.Close. A panic is recovered and logged. After a panic in Start the observer gets no more callbacks for the attempt.
// Errors are *Error. Nested calls that re-enter a lock are not observed.
//
// The later callbacks of an attempt get the context that Start returned. The context that Acquired returns becomes the parent
// of the hold's context, and Renewed, Lost and Released get it.
type Observer struct {
	// Start is called before the lock is requested.
	Start func(context.Context, Attempt) context.Context
	// TraceParent returns the W3C traceparent to store with the lock, so that the traces of waiters can link to it.
	TraceParent func(context.Context) string
	// Contended is called once if the call has to wait, with the holders in the way. A call that does not wait has them in its
	// Error.
	Contended func(context.Context, Attempt, Contention)
	// Waiting is called after Contended when the position in the queue has changed, at most about every 750 ms.
	Waiting func(context.Context, Attempt, Contention)
	// Acquired is called when the lock is held, or when the call failed open. Each attempt ends with exactly one call of
	// Acquired or Failed.
	Acquired func(context.Context, Attempt, Acquisition) context.Context
	// Failed is called when the lock was not acquired.
	Failed func(ctx context.Context, a Attempt, err error)
	// Renewed is called after each renewal of the lease by the watchdog, with an error if it failed. It is also called with
	// ErrUnavailable when the first renewal has had no answer for a sixth of the lease.
	Renewed func(ctx context.Context, a Attempt, err error)
	// Lost is called when the hold ended before it was released. err wraps ErrLost or ErrClosed.
	Lost func(ctx context.Context, a Attempt, err error)
	// Released is called when the last hold of the lock was unlocked, even after a loss. It may then run concurrently with
	// Lost.
	Released func(context.Context, Attempt, Release)
	// Idempotent is called once for each call of package idempotency when its outcome is known, with the caller's context and
	// after the lock is released. The call may have taken no lock: there may be no other callbacks. Op of the Attempt is
	// "idempotent", and Key is the key of the run's lock. A call that is nested in a run of its key or has an invalid argument,
	// and a run that never ends because its process dies, are not observed.
	Idempotent func(context.Context, Attempt, IdempotentCall)
}

// An Attempt is one call for a lock.
type Attempt struct {
	Key    string
	Name   string // name of the lock in spans, metrics and log lines: see WithName
	Op     string // "lock", "try_lock"; by Lead "lead", by Once "once"; by package idempotency "idempotent", for its calls as a whole
	Mode   string // exclusive, fair, read, write or permit
	Policy Policy
}

// A Contention describes the queue for a call that waits.
type Contention struct {
	Holders []Holder // the holders in the way
	// Position is the call's position in the queue: 1 is the next, 0 is unknown. On Redis, readers have positions among
	// themselves, and all readers count as one position for writers.
	Position int
	Waiters  int // length of the queue including this call; 0 if unknown
}

// An Acquisition is a lock that was acquired, or a call that failed open.
type Acquisition struct {
	Hold      *Hold
	Waited    time.Duration // from the call to the grant
	Contended bool          // the call had to wait
	// FailedOpen is why the call continues without the lock (WithFailOpen). It is nil if the lock is held.
	FailedOpen error
}

// A Release is the end of a hold.
type Release struct {
	Held    time.Duration // from the grant to the release
	Waiters int           // number of calls of this process that waited for the lock at that moment
	Err     error         // the error that Unlock returned
}

// An IdempotentCall is a call of package idempotency that has ended.
type IdempotentCall struct {
	// Outcome is one of these:
	//
	//	kept        the work ran, and its answer is recorded
	//	forgotten   the work ran and did nothing, so a repetition runs
	//	unfinished  the work ran and left no outcome: it failed, panicked, or its end could not be recorded
	//	replayed    the work was done before, and the call got its answer
	//	done        the work was done before, and its answer was not kept
	//	in_flight   an earlier run still works
	//	reused      the key was used for another request
	//	unknown     the outcome of an earlier run is unknown, and the policy does not run the work again
	//	expired     the key is older than its record would be
	//	canceled    the caller's context ended first
	//	error       nothing ran, for example because the server is unavailable
	Outcome string
}
