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
	// ErrBusy: another caller holds the lock, and the wait has ended.
	ErrBusy = core.ErrBusy
	// ErrDeadlock: the holder of the lock waits, directly or through other calls, for a lock that this call's context holds.
	// It also matches ErrBusy. DeadlockOf returns the cycle. The caller still holds its other locks: as soon as it unlocks
	// them, the other calls continue.
	ErrDeadlock = core.ErrDeadlock
	// ErrTooManyWaiters: WithMaxWaiters calls of this process already wait for the key.
	ErrTooManyWaiters = core.ErrTooManyWaiters
	// ErrNotRequested: the context had ended before the call, so the lock was not requested and may be free. The error also
	// wraps the context's error, and ErrLost or ErrClosed if the context belongs to a hold of any key that ended that way.
	ErrNotRequested = core.ErrNotRequested
	// ErrLost: the hold ended before it was unlocked, because its lease expired, the lock was taken away, or the maximum hold
	// was reached. It is also the cause with which the hold's context ends.
	ErrLost = core.ErrLost
	// ErrNotHeld: the hold was already unlocked or is nil, or the context carries no hold of the key.
	ErrNotHeld = core.ErrNotHeld
	// ErrUnavailable: Redis does not answer or refuses the command, and the wait has ended or waiting would not help. It
	// wraps Redis' last error.
	ErrUnavailable = core.ErrUnavailable
	// ErrClosed: the Client was closed or is shutting down.
	ErrClosed = core.ErrClosed
	// ErrInvalidKey: the key is empty or longer than 1024 bytes.
	ErrInvalidKey = core.ErrInvalidKey
	// ErrInvalidOption: an option is out of range, or contradicts another one or the outer hold of a nested call. The error
	// names the option.
	ErrInvalidOption = core.ErrInvalidOption
	// ErrWrongType: a Redis key of the lock holds something else, which was not touched, or no fencing token can be made. The
	// error says which, and what to do. It is also the error of a lock and a semaphore that share a key.
	ErrWrongType = core.ErrWrongType
	// ErrNoLock is for a KeyFunc to return: this call runs without a lock.
	ErrNoLock = core.ErrNoLock
	// ErrClockOff: a tick of Once is too far from the server's time. The error wraps a *ClockError.
	ErrClockOff = core.ErrClockOff
	// ErrUnfinished: a tick of Once was started twice, and neither run finished, because its hold was lost or its process
	// crashed. The tick is not started again.
	ErrUnfinished = core.ErrUnfinished
	// ErrUpgrade: the context holds the key for reading and the call would write, or it holds permits of a semaphore and the
	// call needs more. Unlock that hold first: two callers that both upgraded would wait for each other forever.
	ErrUpgrade = core.ErrUpgrade
)

// Error is the error of every failed call for a lock or of a hold. Err wraps one of the package's sentinels. It also wraps the
// context's error if that ended the call.
type Error struct {
	Op         string        // "lock", "try_lock", "lock_all", "lead", "once", "unlock", "extend", "downgrade", "held", "key", "inspect", …
	Key        string        // as given by the caller
	Label      string        // label of the call (WithLabel)
	Waited     time.Duration // how long the call waited; 0 if it did not
	RetryAfter time.Duration // when to try again: when the lock becomes free if that is known, otherwise within 1 s; 0 if nothing is known
	Holders    []Holder      // the holders in the way
	Err        error
}

// Error returns the operation, the key, the label, the time waited, the reason and the labels of the holders.
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
	separator := ", held by "
	for _, h := range e.Holders {
		if h.Label != "" {
			b.WriteString(separator + h.Label)
			separator = ", "
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

// ErrorType returns a low-cardinality name of the outcome, which spans and log lines show as error.type. It is one of
// lock_timeout, lock_deadlock, lock_not_acquired, lock_not_requested, lock_canceled, lock_too_many_waiters, lock_lost,
// lock_not_held, lock_unavailable, lock_closed, lock_invalid_key, lock_invalid_option, lock_wrong_type, lock_upgrade,
// lock_clock_off, lock_unfinished, lock_settled, lock_unsupported or lock_error. lock_settled is no failure: package
// idempotency has answered the call without the lock.
func (e *Error) ErrorType() string {
	switch {
	case errors.Is(e.Err, core.ErrSettled):
		return "lock_settled"
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
