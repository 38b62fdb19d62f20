// Package grpclock puts a lock around calls of a gRPC service. Copy it; docs/recipes.md says what to know.
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

// Keys says which lock the calls of a method need, by its full name: use the constants that protoc generates. A
// method that is not there runs without a lock.
type Keys map[string]lockmw.KeyFunc[any]

// For makes a key function of a method out of one for its request message.
func For[Req any](key lockmw.KeyFunc[Req]) lockmw.KeyFunc[any] {
	return func(ctx context.Context, in any) (string, error) {
		req, ok := in.(Req)
		if !ok {
			return "", status.Errorf(codes.Internal, "the key is made for %T, not for %T", req, in)
		}
		return key(ctx, req)
	}
}

// Unary returns an interceptor. A call tries once for its lock unless lockmw.WithWait says otherwise, and has it for 5
// minutes at most unless lockmw.WithMaxHold does. The handler's context ends when the lock is lost. Unary panics if an
// option is invalid.
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
			return resp, err // the handler's own
		}
		return nil, toStatus(err)
	}
}

// errLost is no code that clients repeat: the work may be done in part.
var errLost = status.Error(codes.Internal, "the call lost its lock")

// toStatus returns what a client may know of why its call was not handled: neither the key nor Redis' words.
func toStatus(err error) error {
	e, _ := errors.AsType[*lockmw.Error](err)
	switch {
	case errors.Is(err, lockmw.ErrLost): // of an outer lock
		return errLost
	case errors.Is(err, lockmw.ErrUnavailable), errors.Is(err, lockmw.ErrClosed):
		return retry(codes.Unavailable, "the call cannot be coordinated with others at the moment", e)
	case errors.Is(err, context.Canceled): // while it waited
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

// retry adds in which time another try may be worthwhile: what the lock knows, or a second.
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
