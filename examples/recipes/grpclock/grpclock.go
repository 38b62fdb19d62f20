// Package grpclock locks calls of a gRPC service. Copy it; docs/recipes.md describes it.
package grpclock

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockmw/go/lockmw"
)

// Keys maps the full name of a method to the key function of its calls. Use the constants that protoc generates as names.
// A method without an entry runs without a lock.
type Keys map[string]lockmw.KeyFunc[any]

// For converts a key function of a request message for Keys.
func For[Req any](key lockmw.KeyFunc[Req]) lockmw.KeyFunc[any] {
	return func(ctx context.Context, in any) (string, error) {
		req, ok := in.(Req)
		if !ok {
			return "", status.Errorf(codes.Internal, "the key is made for %T, not for %T", req, in)
		}
		return key(ctx, req)
	}
}

// Unary returns an interceptor. By default a call does not wait for its lock (lockmw.WithWait) and holds it for at most 5
// minutes (lockmw.WithMaxHold). The handler's context ends when the lock is lost. Unary panics if an option is invalid.
func Unary(l lockmw.Locker, keys Keys, opts ...lockmw.Option) grpc.UnaryServerInterceptor {
	defaults := lockmw.WithDefaults(lockmw.WithWait(0), lockmw.WithMaxHold(5*time.Minute))
	policy := lockmw.JoinOptions(append([]lockmw.Option{defaults}, opts...)...)
	if err := lockmw.CheckOptions(l, policy); err != nil {
		panic(err)
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		keyOf, locked := keys[info.FullMethod]
		if !locked {
			return handler(ctx, req)
		}
		key, err := keyOf(ctx, req)
		if errors.Is(err, lockmw.ErrNoLock) {
			return handler(ctx, req)
		}
		if err != nil {
			return nil, toStatus(err)
		}
		handled := false
		err = lockmw.Do(ctx, l, key, func(ctx context.Context) (err error) {
			handled = true
			resp, err = handler(ctx, req)
			return err
		}, policy)
		switch {
		case err == nil:
			return resp, nil
		case handled && (errors.Is(err, lockmw.ErrLost) || errors.Is(err, lockmw.ErrClosed)):
			return nil, errLost
		case handled:
			return resp, err // the handler's own error
		}
		return nil, toStatus(err)
	}
}

// errLost has a code that clients do not retry, because the work may be partly done.
var errLost = status.Error(codes.Internal, "the call lost its lock")

// toStatus returns the status for a call that was not handled. It reveals neither the key nor errors of Redis.
func toStatus(err error) error {
	e, _ := errors.AsType[*lockmw.Error](err)
	switch {
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

// retry adds the time after which a retry makes sense: RetryAfter of the error, or a second.
func retry(code codes.Code, text string, e *lockmw.Error) error {
	s, delay := status.New(code, text), time.Second
	if e != nil && e.RetryAfter > 0 {
		delay = e.RetryAfter
	}
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}); err == nil {
		s = detailed
	}
	return s.Err()
}
