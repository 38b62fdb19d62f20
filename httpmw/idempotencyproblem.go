package httpmw

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

var (
	problemNoIdempotencyKey = newProblem("idempotency-key-missing", "Bad request", http.StatusBadRequest, "The request has no Idempotency-Key.")
	problemIdempotencyKey   = newProblem("idempotency-key-invalid", "Bad request", http.StatusBadRequest, "The request must have one Idempotency-Key of 1 to 255 visible ASCII characters.")
	problemUnreadable       = newProblem("about:blank", "Bad request", http.StatusBadRequest, "The request body could not be read.")
	problemIdempotencyBody  = newProblem("idempotency-body-too-large", "Content too large", http.StatusRequestEntityTooLarge, "The body of a request with an Idempotency-Key is too long.")
	problemInFlight         = newProblem("idempotency-in-flight", "Still being handled", http.StatusConflict, "The first request with this Idempotency-Key is still being handled.")
	problemUnknownOutcome   = newProblem("idempotency-unknown-outcome", "Unknown outcome", http.StatusConflict, "An earlier request with this Idempotency-Key has ended without an answer, and may have been handled in part.")
	problemDone             = newProblem("idempotency-done", "Already done", http.StatusConflict, "The request with this Idempotency-Key has been handled. Its answer cannot be repeated.")
	problemKeyExpired       = newProblem("idempotency-key-expired", "Key expired", http.StatusConflict, "The Idempotency-Key is too old. The request may have been handled.")
	problemReused           = newProblem("idempotency-key-reused", "Key used twice", http.StatusUnprocessableEntity, "The Idempotency-Key was used for another request.")
	problemMaybeDone        = newProblem("idempotency-maybe-done", "Not recorded", http.StatusInternalServerError, "The request has been handled, perhaps in part, but its answer could not be recorded.")
)

// A refusedError knows its problem.
type refusedError struct {
	problem problem
	err     error
}

func (e *refusedError) Error() string { return e.err.Error() }

func (e *refusedError) Unwrap() error { return e.err }

// idempotencyProblem returns the problem of an error of Idempotent; false if it is like an error of WithLock.
func idempotencyProblem(err error) (p problem, found bool) {
	if r, ok := errors.AsType[*refusedError](err); ok {
		return r.problem, true
	}
	e, ok := errors.AsType[*idempotency.Error](err)
	if !ok {
		return p, false
	}
	for _, c := range []struct {
		err     error
		problem problem
	}{ // the first two may wrap the others
		{idempotency.ErrNotRecorded, problemMaybeDone.withRetryAfter(nil)},
		{idempotency.ErrUnknownOutcome, problemUnknownOutcome},
		{idempotency.ErrInFlight, problemInFlight.withRetryAfter(nil)},
		{idempotency.ErrReused, problemReused},
		{idempotency.ErrDone, problemDone},
		{idempotency.ErrKeyExpired, problemKeyExpired},
	} {
		if errors.Is(e.Err, c.err) {
			return c.problem, true
		}
	}
	if e.Op == "begin" && errors.Is(err, lockmw.ErrLost) { // before anything ran
		return problemUnavailable.withRetryAfter(nil), true
	}
	return p, false
}

// failSilent answers for a handler that has not answered, because its context has ended.
func (m *idempotent) failSilent(w http.ResponseWriter, r *http.Request, run *idempotency.Run) {
	ctx := r.Context()
	if errors.Is(ctx.Err(), context.Canceled) && errors.Is(context.Cause(ctx), context.Canceled) {
		answerNobody(w)
		return
	}
	silent := fmt.Errorf("%w: the context had ended, and the handler has not answered", idempotency.ErrNotRecorded)
	m.fail(w, r, &idempotency.Error{Op: "record", Err: silent, Unfinished: run.Unfinished()})
}
