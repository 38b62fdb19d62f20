// Package core contains what package lockmw and the implementations of locks share: requests, holds and errors.
package core

import (
	"context"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
)

// A Mode says how a hold excludes others.
type Mode int8

// The modes. Exclusive, Fair and Write exclude everything; Read excludes only those three.
const (
	Exclusive Mode = iota
	Fair
	Read
	Write
	Permit // of a semaphore: holds exclude one another only if their weights exceed the permits
)

// String returns the mode as it appears in Redis, spans and metrics.
func (m Mode) String() string { return [...]string{"exclusive", "fair", "read", "write", "permit"}[m] }

// A Kind distinguishes the requests of one Locker from the requests of other Lockers over the same Locks.
type Kind struct {
	Mode      Mode
	OwnTicket bool // each call has its own ticket, whose place in the queue can be kept
	Permits   int  // of a semaphore; 0: it is not a semaphore
}

// MaxPermits is the largest number of permits of a semaphore.
const MaxPermits = 1000

// Forever is a wait without a limit of its own.
const Forever time.Duration = math.MaxInt64

// A Request is for one lock. It does not change once Acquire has received it.
type Request struct {
	Key        string
	Owner      string // 128-bit random identity of one logical execution
	Mode       Mode
	Fixed      bool          // the lease is never renewed
	WantsMoves bool          // call Events.Waiting
	Leads      bool          // call Events.ShuttingDown: the hold lasts until something tells it to end
	Once       bool          // the hold is of a job that runs once for each tick: others wait for it however long it lasts
	Within     time.Duration // of a job: how far from its tick it may begin
	Wait       time.Duration // 0: try once; Forever: until the context ends
	FailOpen   bool          // the caller continues without the lock if the server is unavailable
	Lease      time.Duration // how long the lock outlives its last renewal
	MaxHold    time.Duration // 0: no limit
	MinHold    time.Duration // how long the key stays taken at least
	MaxWaiters int           // for each key and process; 0: no limit
	Place      string        // the name of the place in the queue that is kept if the call ends without the lock; "": none
	KeepPlace  time.Duration // how long the place is kept
	Trace      string        // traceparent stored with the lock, may be empty
	Label      string        // the caller's note on the hold, stored with the lock, may be empty
	Permits    int           // the n of a semaphore; 0: a lock
	Weight     int           // permits that the hold takes; 0: a lock
	Detect     time.Duration // how long a nested wait lasts before deadlock detection runs; 0: it never runs
	Vote       *Vote         // for a lock over several nodes; otherwise nil
	Record     *RecordClaim  // opens the record of the key with the lock; otherwise nil
	Events     Events
}

// Events receives what happens to a request and its hold. Implementations of locks call it with no mutex held, from several
// goroutines.
type Events interface {
	// Contended is called at most once, when the request has to wait.
	Contended(w Wait)
	// Waiting is called after Contended, each time the position is seen to have changed.
	Waiting(w Wait)
	// SelfWait is called at most once, by the goroutine of the call, after a wait of SelfWaitAfter for a hold of this process
	// that existed before the call.
	SelfWait(h LocalHold)
	// IsForgotten reports whether the hold can no longer be released because nothing refers to it. It may only be called once the
	// hold exists, and is meant for occasional calls: the first call starts the check, and a later one sees the result. Unlike
	// the other methods it may be called with a mutex held.
	IsForgotten() bool
	// Forgotten is called once, after IsForgotten has returned true: the hold is no longer renewed, and is lost at the given
	// time.
	Forgotten(h LocalHold, ends time.Time)
	// Renewed reports a renewal of the lease, or its error.
	Renewed(err error)
	// ShuttingDown asks a leader to end its hold. It is called at most once, and the hold lasts until Release.
	ShuttingDown()
	// Lost ends the hold. It is called at most once, and not after Release.
	Lost(cause error)
}

// SelfWaitAfter is how long a call waits for a hold of its own process before that is reported, and on Redis up to a quarter
// longer.
const SelfWaitAfter = time.Second

// A LocalHold is a hold of this process.
type LocalHold struct {
	Request *Request
	Token   int64
	Since   time.Time
}

// A Wait describes what a request waits for.
type Wait struct {
	Holders  []Holder // in the way
	Position int      // in the queue, 1 is the next; 0: unknown
	Queued   int      // length of the queue; 0: unknown
}

// Locks is an implementation of locks: over Redis, or in this process.
type Locks interface {
	// Acquire takes the lock or returns an *AcquireError. The caller must Release the Hold.
	Acquire(ctx context.Context, r *Request) (Hold, error)
}

// LimitedLocks are Locks that do not accept every lease and minimum hold.
type LimitedLocks interface {
	Locks
	// CheckTimes returns an error that wraps ErrInvalidOption if every request with that lease and minimum hold would fail.
	CheckTimes(lease, minHold time.Duration) error
}

// MaxTogether is the largest number of locks that one command takes or releases. Nothing else runs on the server in the meantime.
const MaxTogether = 64

// ManyLocks are Locks that can take or release several locks together.
type ManyLocks interface {
	Locks
	// AcquireAll takes the locks of all requests, or none. There are at most MaxTogether requests. They belong to one call,
	// differ only in their keys, and are in key order. AcquireAll does not wait for other holders: it returns no holds and no
	// error if a lock is not free, or if the locks cannot be taken together for another reason. An error, which is an
	// *AcquireError, ends the call.
	AcquireAll(ctx context.Context, rs []*Request) ([]Hold, error)
	// ReleaseAll releases all holds, which may belong to several calls.
	ReleaseAll(holds []Hold, patience time.Duration) []Released
}

// Released is the result of Release.
type Released struct {
	Waiters int
	Err     error
}

// A Hold is one acquired lock.
type Hold interface {
	Token() int64
	// Deadline returns when the hold ends unless it is renewed before; zero: never.
	Deadline() clock.Instant
	// Expired reports whether the deadline has passed.
	Expired() bool
	// Extend sets the lease, counted from now, and with it the deadline.
	Extend(ctx context.Context, lease time.Duration) error
	// Downgrade turns a write hold into a read hold and admits waiting readers, with no writer in between.
	Downgrade(ctx context.Context) error
	// KeepTaken keeps the key taken for at least d from now, even if the hold is released sooner. It has no effect on a read hold
	// without a minimum hold, which may be shared.
	KeepTaken(d time.Duration)
	// Release ends the hold. It waits at most patience for the confirmation, and returns the number of callers of this process
	// that were waiting.
	Release(patience time.Duration) (waiters int, err error)
}

// A PermitHold is the Hold of a request with Permits.
type PermitHold interface {
	Hold
	// Slots returns the permit slots of the hold, in ascending order. They do not change until it ends.
	Slots() []int
}

// A Holder describes the holder of a lock, as far as it is known.
type Holder struct {
	Owner       string        // identity of the logical execution, 32 hex digits
	Process     string        // host, process id and a random part
	Client      string        // its Client at the server that was asked; differs from Process for a lock over several nodes
	TraceParent string        // W3C traceparent of the acquisition, may be empty
	Token       int64         // fencing token of the hold
	Since       time.Time     // when it was granted, on the server's clock
	TTL         time.Duration // the rest of its lease
	Label       string        // its caller's note, may be empty
	Fixed       bool          // the lease is not renewed: the lock is free when TTL has passed, or earlier
	MinRest     time.Duration // how much longer the key stays taken at least, whatever the holder does
	Lingers     bool          // it was unlocked, and its minimum hold keeps the key taken for TTL
	Weight      int           // of a permit: how many of the semaphore's permits it takes; 0: not a permit
	Slots       string        // its permit slots, such as "0-2,5"; "" if the list is long
}

// RetryAfter returns after what time another try for a lock with these holders may succeed: the time until the lock is free if
// that is known, and at most a second otherwise. For a semaphore it is the time until the first permit may be free. It is 0 if
// nothing is known, and at most 24 h.
func RetryAfter(holders []Holder) time.Duration {
	after := time.Duration(0)
	for i, h := range holders {
		limit := time.Second
		if h.Fixed || h.Lingers {
			limit = 24 * time.Hour // the longest lease
		}
		left := max(min(h.TTL, limit), h.MinRest)
		if h.Weight > 0 && i > 0 {
			after = min(after, left)
		} else {
			after = max(after, left)
		}
	}
	return after
}

// A Backend describes where the locks of a Locker are stored, for packages that store data of their own next to them.
type Backend struct {
	Redis  redis.UniversalClient
	Holder func(key string) string // the Redis key that exists while the lock of key is held
	Shared bool                    // several calls may hold the lock at the same time
	Closed <-chan struct{}         // closed together with the locks
}
