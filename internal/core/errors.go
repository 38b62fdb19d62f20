package core

import (
	"errors"
	"fmt"
	"time"
)

// The outcomes that callers tell apart; package lockmw documents and exports them.
var (
	ErrBusy           = errors.New("lockmw: lock is busy")
	ErrTooManyWaiters = errors.New("lockmw: too many waiters")
	ErrNotRequested   = errors.New("lockmw: not requested: the context had already ended")
	ErrLost           = errors.New("lockmw: lock was lost")
	ErrNotHeld        = errors.New("lockmw: lock is not held")
	ErrUnavailable    = errors.New("lockmw: lock server is unavailable")
	ErrClosed         = errors.New("lockmw: client is closed")
	ErrInvalidKey     = errors.New("lockmw: invalid key")
	ErrInvalidOption  = errors.New("lockmw: invalid option")
	ErrWrongType      = errors.New("lockmw: redis key holds something that is not a lock")
	ErrNoLock         = errors.New("lockmw: no lock needed")
	ErrClockOff       = errors.New("lockmw: clock is off")
	ErrUnfinished     = errors.New("lockmw: tick was started twice, and neither run finished")
	ErrUpgrade        = errors.New("lockmw: a hold cannot be upgraded: unlock it first")
)

// ErrNoAnswer is the error of a call whose time ended before the server answered.
var ErrNoAnswer = fmt.Errorf("%w: it has not answered yet", ErrUnavailable)

// ErrDeadlock also matches ErrBusy.
var ErrDeadlock error = busyError("lockmw: deadlock: the holder waits for a lock that this call holds")

// A busyError matches ErrBusy, without its text.
type busyError string

func (e busyError) Error() string { return string(e) }

// Unwrap returns ErrBusy.
func (e busyError) Unwrap() error { return ErrBusy }

// RefuseShorter returns the error of an Extend to a lease that is shorter than the present one, or nil if it is not shorter.
func RefuseShorter(lease, has time.Duration) error {
	if lease >= has {
		return nil
	}
	return fmt.Errorf("%w: lease of %v is shorter than the %v that the hold has: a lease is never shortened", ErrInvalidOption, lease, has.Round(time.Millisecond))
}

// IsLoss reports whether err says that a hold ended before it was released.
func IsLoss(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) }

// An AcquireError gives the reason why a lock was not acquired, and the holders that were in the way.
type AcquireError struct {
	Err        error
	RetryAfter time.Duration
	Holders    []Holder
}

func (e *AcquireError) Error() string { return e.Err.Error() }
func (e *AcquireError) Unwrap() error { return e.Err }
