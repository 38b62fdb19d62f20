package grpcmw

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/retrydelay"
	"github.com/lockmw/go/lockmw"
)

var (
	// errLost has a code that clients do not retry, because the work may be partly done.
	errLost        = status.Error(codes.Internal, "the call lost its lock")
	errNotRecorded = status.Error(codes.Internal, "the call has run, and its answer is not recorded: repeat it with the same key")
	errDone        = status.Error(codes.AlreadyExists, "the call was done, and its answer was not kept")
)

// Error returns the status error for a call that was not handled because of err, an error of a Locker or of a key function. Unary and
// Stream return it; a handler that takes locks itself may return it as well. It reveals neither the key nor errors of Redis. A status
// of a key function is returned as it is, and any other error is Internal. Error(nil) is nil.
func Error(err error) error {
	e, _ := errors.AsType[*lockmw.Error](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lockmw.ErrLost): // of an outer lock
		return errLost
	case errors.Is(err, lockmw.ErrUnavailable), errors.Is(err, lockmw.ErrClosed):
		return retry(codes.Unavailable, "the call cannot be coordinated with others at the moment", e)
	case errors.Is(err, context.Canceled): // during the wait
		return status.Error(codes.Canceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the call did not get its lock in time")
	case errors.Is(err, lockmw.ErrInvalidKey):
		return status.Error(codes.InvalidArgument, "what the call is about is missing or not valid")
	case errors.Is(err, lockmw.ErrTooManyWaiters):
		return retry(codes.ResourceExhausted, "too many calls for the same thing are waiting", e)
	case errors.Is(err, lockmw.ErrBusy):
		return retry(codes.Aborted, "another call for the same thing is being handled", e)
	}
	if s, ok := status.FromError(err); ok { // of a key function
		return s.Err()
	}
	return status.Error(codes.Internal, "the call has no lock")
}

// idempotencyError returns the status error for a call that package idempotency has not run.
func idempotencyError(err error) error {
	e, _ := errors.AsType[*lockmw.Error](err)
	switch {
	case errors.Is(err, idempotency.ErrUnknownOutcome): // it and ErrDone may wrap the others
		return status.Error(codes.FailedPrecondition, "the outcome of an earlier call with this key is unknown")
	case errors.Is(err, idempotency.ErrDone):
		return errDone
	case (errors.Is(err, lockmw.ErrUnavailable) || errors.Is(err, lockmw.ErrLost)) && !errors.Is(err, lockmw.ErrNotRequested):
		return notHandled(e) // first, because it may wrap the context error of a connection or of the lost lock
	case errors.Is(err, context.Canceled): // before the call began
		return status.Error(codes.Canceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the call could not begin before its deadline")
	case errors.Is(err, idempotency.ErrInFlight):
		return retry(codes.Aborted, "the first call with this key is still being handled", e)
	case errors.Is(err, idempotency.ErrReused):
		return status.Error(codes.InvalidArgument, "the key was used for another request")
	case errors.Is(err, idempotency.ErrKeyExpired):
		return status.Error(codes.FailedPrecondition, "the key is too old")
	case errors.Is(err, lockmw.ErrInvalidKey):
		return status.Error(codes.InvalidArgument, "the idempotency-key must have from 1 to 255 bytes")
	}
	return notHandled(e)
}

func notHandled(e *lockmw.Error) error {
	return retry(codes.Unavailable, "the call was not handled, because the record of its key is not available", e)
}

// retry adds the time after which a retry makes sense; e may be nil.
func retry(code codes.Code, text string, e *lockmw.Error) error {
	s := status.New(code, text)
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retrydelay.Of(e))}); err == nil {
		s = detailed
	}
	return s.Err()
}
