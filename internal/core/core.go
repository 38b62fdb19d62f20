// Package core holds the words that package lockmw and the implementations of a lock share:
// what is asked for, what is granted, and what can go wrong.
package core

import (
	"context"
	"math"
	"time"
)

// A Mode says how a hold excludes others.
type Mode int8

// The modes. Exclusive, Fair and Write exclude everything; Read excludes only those three.
const (
	Exclusive Mode = iota
	Fair
	Read
	Write
)

// String returns the mode as Redis, spans and metrics have it.
func (m Mode) String() string { return [...]string{"exclusive", "fair", "read", "write"}[m] }

// A Kind says how the requests of one Locker differ from those of others over the same Locks.
type Kind struct {
	Mode      Mode
	OwnTicket bool // each call has a ticket of its own, whose place in the queue can be kept
}

// Forever is a wait without a limit of its own.
const Forever time.Duration = math.MaxInt64

// A Request asks for one lock. It is not changed after it was handed to Acquire.
type Request struct {
	Key        string
	Owner      string // 128-bit random identity of one logical execution
	Mode       Mode
	Fixed      bool          // the lease is never renewed
	WantsMoves bool          // Events.Waiting is wanted
	Wait       time.Duration // 0: try once; Forever: until the context ends
	Lease      time.Duration // how long the lock outlives its last renewal
	MaxHold    time.Duration // 0: no limit
	MinHold    time.Duration // the key stays taken at least that long
	MaxWaiters int           // per key and process; 0: no limit
	Place      string        // a place in the queue that outlives a call which did not get the lock; "": none
	KeepPlace  time.Duration // by how long
	Trace      string        // traceparent stored with the lock, may be empty
	Events     Events
}

// SameLease reports whether a lease taken for r serves other as well, so that it can be passed on.
func (r *Request) SameLease(other *Request) bool {
	return r.Lease == other.Lease && r.Fixed == other.Fixed
}

// Events are told what happens to a request and its grant. Implementations call them without
// locks held, and must expect them to come from several goroutines.
type Events interface {
	// Contended is called at most once, when the request has to wait.
	Contended(w Wait)
	// Waiting is called after Contended, when the position is seen to have changed.
	Waiting(w Wait)
	// Renewed reports a renewal of the lease, or why it failed.
	Renewed(err error)
	// Lost ends the hold; it is called at most once and not after Release.
	Lost(cause error)
}

// A Wait is what is known to a request that waits.
type Wait struct {
	Holders  []Holder // who is in the way
	Position int      // in the queue, 1 is the next; 0: unknown
	Queued   int      // how long the queue is; 0: unknown
}

// Locks is an implementation of locks: over Redis, or in this process.
type Locks interface {
	// Acquire takes the lock or returns an *AcquireError. The caller must Release the Grant.
	Acquire(ctx context.Context, r *Request) (Hold, error)
}

// A Grant is one acquired lock.
type Hold interface {
	Token() int64
	// Deadline is when the hold is over unless a renewal succeeds before; zero if never.
	Deadline() time.Time
	// Expired compares the clock with the deadline.
	Expired() bool
	// Extend sets the lease, counted from now, and the deadline with it.
	Extend(ctx context.Context, lease time.Duration) error
	// Downgrade makes a hold that excludes everything one for reading, with nobody in between, and lets
	// in those who wait to read.
	Downgrade(ctx context.Context) error
	// Release ends the hold, waiting at most patience for that to be confirmed, and reports how many
	// of this process were waiting for it.
	Release(patience time.Duration) (waiters int, err error)
}

// A Holder is who has a lock, as far as it can be seen.
type Holder struct {
	Owner       string        // identity of the logical execution, 32 hex digits
	Process     string        // host, process id and a random part
	TraceParent string        // W3C traceparent of the acquisition, may be empty
	Token       int64         // fencing token of the hold
	Since       time.Time     // when it was granted, by the server's clock
	TTL         time.Duration // what is left of its lease
}
