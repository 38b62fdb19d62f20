package observe

import (
	"errors"

	"github.com/lockmw/go/lockmw"
)

// An Outcome is the end of a wait, a hold or a renewal.
type Outcome uint8

// Outcomes. A wait has one of the outcomes up to Failed. Holds and renewals may also be Failed.
const (
	Acquired Outcome = iota
	NotAcquired
	TimedOut
	Deadlocked
	Canceled
	Failed
	Released
	Lost
	Renewed
	Outcomes // number of outcomes
)

var outcomeNames = [Outcomes]string{
	"acquired", "not_acquired", "timeout", "deadlock", "canceled", "error", "released", "lost", "renewed",
}

// String returns the name of the outcome in reports.
func (o Outcome) String() string { return outcomeNames[o] }

const (
	typeBusy    = "lock_not_acquired"
	typeSettled = "lock_settled"
)

// IsFailure reports whether err, of a wait, is a failure. It is none if the call found the lock busy and did not wait, or if
// package idempotency has answered it without the lock.
func IsFailure(err error) bool {
	return err != nil && ErrorType(err) != typeBusy && ErrorType(err) != typeSettled
}

// OutcomeOf returns the outcome of a wait that returned err.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Acquired
	}
	switch ErrorType(err) {
	case typeBusy, typeSettled, "lock_too_many_waiters":
		return NotAcquired
	case "lock_timeout":
		return TimedOut
	case "lock_deadlock":
		return Deadlocked
	case "lock_canceled", "lock_closed", "lock_lost": // the caller's context, its Client or an outer hold has ended
		return Canceled
	}
	return Failed
}

// ErrorType is lockmw.Error's ErrorType for any error.
func ErrorType(err error) string {
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		return e.ErrorType()
	}
	return (&lockmw.Error{Err: err}).ErrorType()
}

// Reason returns err without the key at the beginning of the text of a *lockmw.Error.
func Reason(err error) error {
	if e, ok := errors.AsType[*lockmw.Error](err); ok {
		return e.Err
	}
	return err
}
