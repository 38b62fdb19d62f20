package lockmw

import (
	"context"
	"time"
)

// An Observer has callbacks for what happens to locks: how long calls wait, for which holders, and how holds
// end. Every callback may be nil (cf. httptrace.ClientTrace). Callbacks must be safe for concurrent use, and
// quick, because calls for the lock wait for them. They must not call Close. A panic is recovered and logged;
// after a panic in Start the observer gets no more callbacks for the attempt. Errors are *Error. Re-entry is
// not observed.
//
// The context returned by Start is given to the later callbacks of that attempt. The one returned by Acquired
// becomes the parent of the hold's context, and is given to Renewed, Lost and Released.
type Observer struct {
	// Start is called before the lock is requested.
	Start func(context.Context, Attempt) context.Context
	// TraceParent returns the W3C traceparent to store with the lock, for others to link to.
	TraceParent func(context.Context) string
	// Contended is called once if the call has to wait, with the holders in the way. For a call that
	// does not wait they are in its Error.
	Contended func(context.Context, Attempt, Contention)
	// Waiting is called after Contended when the position in the queue is seen to have changed: about
	// every 750 ms at most.
	Waiting func(context.Context, Attempt, Contention)
	// Acquired is called when the lock is held. Each attempt ends with
	// exactly one of Acquired and Failed.
	Acquired func(context.Context, Attempt, Acquisition) context.Context
	// Failed is called when the lock was not acquired.
	Failed func(ctx context.Context, a Attempt, err error)
	// Renewed is called after each renewal of the lease by the watchdog, with its error if it failed, and with
	// ErrUnavailable when the first renewal has had no answer for a sixth of the lease.
	Renewed func(ctx context.Context, a Attempt, err error)
	// Lost is called when the hold ended before it was released; err wraps ErrLost or ErrClosed.
	Lost func(ctx context.Context, a Attempt, err error)
	// Released is called when the last hold of the lock was unlocked, also after a loss. It may then come
	// at the same time as Lost.
	Released func(context.Context, Attempt, Release)
}

// An Attempt is one call for a lock.
type Attempt struct {
	Key    string
	Name   string // WithName's, else the kind of the key: see there
	Op     string // "lock", "try_lock"; by Lead "lead", by Once "once"
	Mode   string // exclusive, fair, read, write or permit
	Policy Policy
}

// A Contention is what stands in the way of a call that waits.
type Contention struct {
	Holders []Holder
	// Position in the queue; 1 is the next, 0 is unknown. On Redis readers have positions among themselves,
	// and count as one for writers.
	Position int
	Waiters  int // how long the queue is, with this call; 0 if unknown
}

// An Acquisition is a lock that was acquired.
type Acquisition struct {
	Hold      *Hold
	Waited    time.Duration // from the call to the grant
	Contended bool
	// FailedOpen is why the call goes on without a lock under WithFailOpen; nil when it is held.
	FailedOpen error
}

// A Release is the end of a hold.
type Release struct {
	Held    time.Duration
	Waiters int   // of this process, at that moment
	Err     error // what Unlock returned
}
