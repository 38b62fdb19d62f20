// Package core has what package lockmw and the implementations of locks share: requests, holds and errors.
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
	Permit // of a semaphore: holds whose weights fit exclude one another only by their slots
)

// String returns the mode as Redis, spans and metrics have it.
func (m Mode) String() string { return [...]string{"exclusive", "fair", "read", "write", "permit"}[m] }

// A Kind says how the requests of one Locker differ from those of others over the same Locks.
type Kind struct {
	Mode      Mode
	OwnTicket bool // each call has a ticket of its own, whose place in the queue can be kept
	Permits   int  // that a semaphore has; 0: it is none
}

// MaxPermits is how many a semaphore has at most.
const MaxPermits = 1000

// Forever is a wait without a limit of its own.
const Forever time.Duration = math.MaxInt64

// A Request is for one lock. It is not changed after Acquire got it.
type Request struct {
	Key        string
	Owner      string // 128-bit random identity of one logical execution
	Mode       Mode
	Fixed      bool          // the lease is never renewed
	WantsMoves bool          // Events.Waiting is to be called
	Leads      bool          // Events.ShuttingDown is to be called: the hold goes on until something tells it to end
	Once       bool          // the hold is of a job that runs once for each tick: others wait for it however long it lasts
	Within     time.Duration // of a job: how far from its tick it may begin
	Wait       time.Duration // 0: try once; Forever: until the context ends
	FailOpen   bool          // the caller goes on without the lock if the server is unavailable
	Lease      time.Duration // how long the lock outlives its last renewal
	MaxHold    time.Duration // 0: no limit
	MinHold    time.Duration // the key stays taken at least that long
	MaxWaiters int           // per key and process; 0: no limit
	Place      string        // the name under which a place in the queue is kept if the call ends without the lock; "": none
	KeepPlace  time.Duration // for how long
	Trace      string        // traceparent stored with the lock, may be empty
	Label      string        // what the caller says of the hold, stored with the lock; may be empty
	Permits    int           // of a semaphore, which has so many; 0: it is a lock
	Weight     int           // how many of these are taken at once
	Detect     time.Duration // after how long a wait of a call that has other locks is looked at for a deadlock; 0: never
	Vote       *Vote         // nil: the lock is not one of several
	Events     Events
}

// Events are called for what happens to a request and its hold. An implementation of locks calls them with
// no mutex held, and from several goroutines.
type Events interface {
	// Contended is called at most once, when the request has to wait.
	Contended(w Wait)
	// Waiting is called after Contended, when the position is seen to have changed.
	Waiting(w Wait)
	// Stalled is called at most once, by the goroutine of the call, when it has waited for StallAfter for a hold
	// of this process that was there before.
	Stalled(h LocalHold)
	// IsForgotten reports whether nobody can release the hold any more, because nothing refers to it. It may only be
	// called once the hold is there, and is meant for now and then: the first call begins to look, and a later one sees
	// it. Unlike the others it may be called with a mutex held.
	IsForgotten() bool
	// Forgotten is called once, after IsForgotten has said so: the hold is not renewed, and is lost at the time given.
	Forgotten(h LocalHold, ends time.Time)
	// Renewed reports a renewal of the lease, or why it failed.
	Renewed(err error)
	// ShuttingDown asks for the end of a hold that leads. It is called at most once, and the hold goes on until
	// Release.
	ShuttingDown()
	// Lost ends the hold; it is called at most once and not after Release.
	Lost(cause error)
}

// StallAfter is after how long a wait for a hold of the same process is reported; on Redis up to a quarter
// later.
const StallAfter = time.Second

// A LocalHold is a hold of this process.
type LocalHold struct {
	Request *Request
	Token   int64
	Since   time.Time
}

// A Wait is what is known to a request that waits.
type Wait struct {
	Holders  []Holder // in the way
	Position int      // in the queue, 1 is the next; 0: unknown
	Queued   int      // how long the queue is; 0: unknown
}

// Locks is an implementation of locks: over Redis, or in this process.
type Locks interface {
	// Acquire takes the lock or returns an *AcquireError. The caller must Release the Hold.
	Acquire(ctx context.Context, r *Request) (Hold, error)
}

// LimitedLocks are Locks that not every lease and minimum hold is good for.
type LimitedLocks interface {
	Locks
	// CheckTimes returns an error that wraps ErrInvalidOption if each request with that lease and minimum hold would fail.
	CheckTimes(lease, minHold time.Duration) error
}

// MaxTogether is how many locks are taken or released at once at most: nothing else runs on the server meanwhile.
const MaxTogether = 64

// ManyLocks are Locks that can take several locks at once, and release several at once.
type ManyLocks interface {
	Locks
	// AcquireAll takes the locks of all requests, or none. They are MaxTogether at most. The requests are of one call: they differ in their keys only,
	// and are in the order of these. It does not wait for other holders: it returns no holds and no error if a lock is
	// not free, or if all at once is not possible for another reason. An error, which is an *AcquireError, ends the call.
	AcquireAll(ctx context.Context, rs []*Request) ([]Hold, error)
	// ReleaseAll is Release of all holds, which may be of several calls.
	ReleaseAll(holds []Hold, patience time.Duration) []Released
}

// Released is what Release of a Hold returns.
type Released struct {
	Waiters int
	Err     error
}

// A Hold is one acquired lock, as its implementation has it.
type Hold interface {
	Token() int64
	// Deadline is when the hold ends unless a renewal succeeds before; zero if never.
	Deadline() clock.Instant
	// Expired compares the clock with the deadline.
	Expired() bool
	// Extend sets the lease, counted from now, and the deadline with it.
	Extend(ctx context.Context, lease time.Duration) error
	// Downgrade makes a write hold a read hold, and admits waiting readers. No writer comes in between.
	Downgrade(ctx context.Context) error
	// KeepTaken keeps the key taken for at least d from now, even if the hold is released sooner. It has no
	// effect on a hold for reading without a minimum hold, which may be shared.
	KeepTaken(d time.Duration)
	// Release ends the hold. It waits at most patience for the confirmation, and returns how many callers
	// of this process were waiting.
	Release(patience time.Duration) (waiters int, err error)
}

// A PermitHold is the Hold of a request with Permits.
type PermitHold interface {
	Hold
	// Slots returns which of the permits the hold has, in ascending order. They are its own until it ends.
	Slots() []int
}

// A Holder is who holds a lock, as far as it can be seen.
type Holder struct {
	Owner       string        // identity of the logical execution, 32 hex digits
	Process     string        // host, process id and a random part
	Client      string        // the same of its Client of the server that was asked; it differs if the lock is one of several
	TraceParent string        // W3C traceparent of the acquisition, may be empty
	Token       int64         // fencing token of the hold
	Since       time.Time     // when it was granted, by the server's clock
	TTL         time.Duration // what is left of its lease
	Label       string        // what its caller says of the hold, may be empty
	Fixed       bool          // the lease is not renewed: the lock is free when TTL is over, or before
	MinRest     time.Duration // the key stays taken at least that long, whatever the holder does
	Lingers     bool          // it was unlocked, and its minimum hold keeps the key taken until TTL is over
	Weight      int           // of a permit: how many of the semaphore's it has; 0: it is none
	Slots       string        // which these are, such as "0-2,5"; "" if the list is long
}

// RetryAfter returns in which time another try for a lock that these have may be worthwhile: when it is free
// if that is known, and in a second at most if not. For a permit that is when the first of them may be free. It is 0 if
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

// A Backend is where the locks of a Locker live, for packages that keep something of their own beside them.
type Backend struct {
	Redis  redis.UniversalClient
	Holder func(key string) string // the Redis key that exists while the lock of key is held
	Shared bool                    // several may hold the lock at the same time
	Closed <-chan struct{}         // closed when the locks are
}
