package idempotency

import (
	"errors"
	"fmt"
)

// The outcomes of a call that ran nothing, except for ErrNotRecorded. They are wrapped in an *Error.
var (
	// ErrInFlight means that the first run of the key still works. The error also wraps lockmw.ErrBusy.
	ErrInFlight = errors.New("idempotency: the first run of this key has not finished")
	// ErrReused means that the key was used for another request: the fingerprints differ.
	ErrReused = errors.New("idempotency: the key was used for another request")
	// ErrUnknownOutcome means that an earlier run of the key left no outcome, and the policy does not run the work again. See
	// Unfinished for the details, and Runner.Resolve for what an operator can do.
	ErrUnknownOutcome = errors.New("idempotency: the outcome of an earlier run of this key is unknown")
	// ErrDone means that the work was done, but its answer was not kept, for example because it was too large.
	ErrDone = errors.New("idempotency: the work of this key is done, and its answer was not kept")
	// ErrNotRecorded means that the work ran in this call, but its answer could not be recorded. A repetition gets
	// ErrUnknownOutcome, or what the policy decides. Unfinished describes the run of this call.
	ErrNotRecorded = errors.New("idempotency: the work has run, but its answer could not be recorded")
	// ErrNested means that the context comes from a run of the same key.
	ErrNested = errors.New("idempotency: the call is nested in a run of the same key")
	// ErrKeyExpired means that the key is older than the TTL, so its record may be gone: see WithKeyTime.
	ErrKeyExpired = errors.New("idempotency: the key is older than its record would be")
	// ErrNotDone is returned by the function of Recover if the earlier runs did nothing: the work runs again.
	ErrNotDone = errors.New("idempotency: the earlier runs have done nothing")
	// ErrSuperseded is returned by a Store if a run may not begin, because it was made void or a later one has begun.
	ErrSuperseded = errors.New("idempotency: the run was superseded")
)

// An Error is the error of this package. Its text contains neither the key nor the scope.
type Error struct {
	Op         string      // "begin", "record" or "resolve"
	Err        error       // one of the errors of this package, or an error of lockmw
	Unfinished *Unfinished // of a call, with ErrUnknownOutcome, ErrDone and ErrNotRecorded: the run in question; otherwise nil
}

// Error returns the operation and its error.
func (e *Error) Error() string { return fmt.Sprintf("idempotency: %s: %v", e.Op, e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
