package lockmw

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/go/internal/core"
)

// The outcomes of a call, matched with errors.Is.
var (
	// ErrBusy: the lock is held, and the time to wait for it is over.
	ErrBusy = core.ErrBusy
	// ErrDeadlock: the call waited for a lock whose holder waits, over others perhaps, for a lock that this call's context
	// has. It is ErrBusy, too. DeadlockOf says who waits for whom. The locks that the caller has stay its own to unlock: as
	// soon as it does, the others go on.
	ErrDeadlock = core.ErrDeadlock
	// ErrTooManyWaiters: WithMaxWaiters others of this process wait for the key already.
	ErrTooManyWaiters = core.ErrTooManyWaiters
	// ErrNotRequested: the context had ended before the call, so that nobody knows whether the lock is free. The
	// error wraps the context's too, and ErrLost or ErrClosed if the context is of a hold that ended so, of
	// whatever key.
	ErrNotRequested = core.ErrNotRequested
	// ErrLost: the lock was held and is no longer: its lease ran out, it was taken away, or the
	// maximum hold is over. Also the cause with which the hold's context ends.
	ErrLost = core.ErrLost
	// ErrNotHeld: the hold has been unlocked already, or the context carries none for the key.
	ErrNotHeld = core.ErrNotHeld
	// ErrUnavailable: Redis does not answer or refuses to work, and the time to wait for it is over, or waiting would
	// not help; the server's last words are wrapped.
	ErrUnavailable = core.ErrUnavailable
	// ErrClosed: the Client was shut down or closed.
	ErrClosed = core.ErrClosed
	// ErrInvalidKey: the key is empty or longer than 1024 bytes.
	ErrInvalidKey = core.ErrInvalidKey
	// ErrInvalidOption: an option's value is out of its range, or an option of a nested call contradicts the
	// outer hold.
	ErrInvalidOption = core.ErrInvalidOption
	// ErrWrongType: a key of the lock in Redis holds something else, which was not touched, or no fencing token can be made.
	// The error says which, and what to do.
	ErrWrongType = core.ErrWrongType
	// ErrNoLock is returned by a KeyFunc that wants this call to run without a lock.
	ErrNoLock = core.ErrNoLock
	// ErrClockOff: a tick of Once is not near the time of the server. The error wraps a *ClockError.
	ErrClockOff = core.ErrClockOff
	// ErrUnfinished: a tick of Once was begun by two holds, each of which was lost, or died, before its run came to
	// its end. It is not begun again.
	ErrUnfinished = core.ErrUnfinished
	// ErrUpgrade: the context holds the key for reading and asks to write, or has permits of a semaphore and asks for more.
	// Unlock that hold first: two callers that both upgrade would wait for each other for ever.
	ErrUpgrade = core.ErrUpgrade
)

// Error is what every failed call for a lock or a hold returns. Err wraps one of the package's
// sentinels, and the context's error too if that ended the call.
type Error struct {
	Op         string        // "lock", "try_lock", "lead", "once", "unlock", "extend", "key", …
	Key        string        // as given by the caller
	Label      string        // the caller's (WithLabel)
	Waited     time.Duration // how long the call waited for others; 0 if it did not
	RetryAfter time.Duration // when another try may be worthwhile: when the lock is free if that is known, else within 1 s; 0 if nothing is known
	Holders    []Holder      // who was in the way
	Err        error
}

// Error names the operation, the key, the label, the time waited, the reason and the labels of those in the way.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("lockmw: ")
	b.WriteString(e.Op)
	if e.Key != "" {
		fmt.Fprintf(&b, " %q", shorten(e.Key))
	}
	if e.Label != "" {
		fmt.Fprintf(&b, " for %s", e.Label)
	}
	if e.Waited > 0 {
		fmt.Fprintf(&b, " after %v", e.Waited.Round(time.Microsecond))
	}
	b.WriteString(": ")
	b.WriteString(strings.TrimPrefix(e.Err.Error(), "lockmw: "))
	before := ", in the way: "
	for _, h := range e.Holders {
		if h.Label != "" {
			b.WriteString(before + h.Label)
			before = ", "
		}
	}
	return b.String()
}

func shorten(key string) string {
	const most = 100
	if len(key) <= most {
		return key
	}
	return key[:most] + "…"
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ErrorType is a low-cardinality name of the outcome, used as error.type of spans:
// lock_timeout, lock_deadlock, lock_not_acquired, lock_not_requested, lock_canceled, lock_too_many_waiters, lock_lost, lock_not_held,
// lock_unavailable, lock_closed, lock_invalid_key, lock_invalid_option, lock_wrong_type,
// lock_upgrade, lock_clock_off, lock_unfinished, lock_unsupported or lock_error.
func (e *Error) ErrorType() string {
	switch {
	case errors.Is(e.Err, ErrLost):
		return "lock_lost"
	case errors.Is(e.Err, ErrClosed):
		return "lock_closed"
	case errors.Is(e.Err, ErrWrongType):
		return "lock_wrong_type"
	case errors.Is(e.Err, ErrUnavailable):
		return "lock_unavailable"
	case errors.Is(e.Err, ErrNotRequested):
		return "lock_not_requested"
	case errors.Is(e.Err, context.Canceled):
		return "lock_canceled"
	case errors.Is(e.Err, ErrTooManyWaiters):
		return "lock_too_many_waiters"
	case errors.Is(e.Err, ErrDeadlock):
		return "lock_deadlock"
	case errors.Is(e.Err, ErrBusy) && e.Waited > 0:
		return "lock_timeout"
	case errors.Is(e.Err, ErrBusy):
		return "lock_not_acquired"
	case errors.Is(e.Err, ErrNotHeld):
		return "lock_not_held"
	case errors.Is(e.Err, ErrInvalidKey):
		return "lock_invalid_key"
	case errors.Is(e.Err, ErrInvalidOption):
		return "lock_invalid_option"
	case errors.Is(e.Err, ErrUpgrade):
		return "lock_upgrade"
	case errors.Is(e.Err, ErrClockOff):
		return "lock_clock_off"
	case errors.Is(e.Err, ErrUnfinished):
		return "lock_unfinished"
	case errors.Is(e.Err, errors.ErrUnsupported):
		return "lock_unsupported"
	}
	return "lock_error"
}
