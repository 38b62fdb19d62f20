// Package grpconce runs each call of a gRPC service once for its idempotency-key, and gives every repetition the first answer.
// Copy it; docs/recipes.md describes it.
package grpconce

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// Methods maps the full name of a method to its policy. Use the constants that protoc generates as names. A method without an
// entry runs as without the interceptor, and so does a call without a key.
type Methods map[string]idempotency.Policy

// The metadata of a call and of a repeated answer.
const (
	keyMetadata      = "idempotency-key"
	replayedMetadata = "idempotent-replayed"
)

// Unary returns an interceptor. caller returns the identity that authentication has put into the context, so that two callers
// who choose the same key have different ones. Unary panics if a policy is not set.
func Unary(once *idempotency.Runner, caller func(context.Context) (string, bool), methods Methods) grpc.UnaryServerInterceptor {
	for _, policy := range methods {
		if err := once.CheckPolicy(policy); err != nil {
			panic(err)
		}
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		policy, listed := methods[info.FullMethod]
		ids := metadata.ValueFromIncomingContext(ctx, keyMetadata)
		if !listed || len(ids) == 0 {
			return handler(ctx, req)
		}
		scope, known := caller(ctx)
		in, isProto := req.(proto.Message)
		switch {
		case !known || scope == "":
			return nil, status.Error(codes.Unauthenticated, "an idempotency-key needs a caller that is known")
		case len(ids) > 1:
			return nil, status.Error(codes.InvalidArgument, "the idempotency-key is repeated")
		case !isProto:
			return nil, status.Error(codes.Internal, "the request is not a protobuf message")
		}
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
		if err != nil {
			return nil, status.Error(codes.Internal, "the request cannot be compared")
		}
		key := idempotency.Key{Scope: scope, ID: ids[0]}
		run, err := once.Begin(ctx, key, key.Fingerprint([]byte(info.FullMethod), text), policy)
		if err != nil {
			return nil, toStatus(err)
		}
		if answer, done := run.Replay(); done {
			return replay(ctx, answer)
		}
		return handle(run, req, handler)
	}
}

// handle runs the handler and records its answer before it returns it.
func handle(run *idempotency.Run, req any, handler grpc.UnaryHandler) (any, error) {
	returned := false
	defer func() {
		if !returned { // a panic
			_ = run.Leave()
		}
	}()
	resp, err := handler(run.Context(), req)
	returned = true
	if err != nil {
		if run.IsNotDone() || isRefusal(err) && run.Context().Err() == nil {
			_ = run.Forget() // if this fails, the outcome stays unknown
		} else {
			_ = run.Leave()
		}
		return resp, err
	}
	body, err := encode(resp)
	if err != nil {
		_ = run.Leave()
		return nil, errNotRecorded
	}
	if err := run.Keep(idempotency.Answer{Body: body}); err != nil {
		return nil, errNotRecorded
	}
	return resp, nil
}

// isRefusal reports whether a handler that returns err has done nothing, as with a 4xx in HTTP.
func isRefusal(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.ResourceExhausted, codes.Aborted, codes.Unimplemented:
		return true
	}
	return false
}

// encode returns the bytes of a response together with its type, so that replay needs no list of types.
func encode(resp any) ([]byte, error) {
	message, ok := resp.(proto.Message)
	if !ok {
		return nil, errors.New("the response is not a protobuf message")
	}
	packed, err := anypb.New(message)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(packed)
}

func replay(ctx context.Context, answer idempotency.Answer) (any, error) {
	var packed anypb.Any
	if answer.NoBody || proto.Unmarshal(answer.Body, &packed) != nil {
		return nil, errDone
	}
	resp, err := packed.UnmarshalNew()
	if err != nil {
		return nil, errDone
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(replayedMetadata, "true")) // fails only without a server
	return resp, nil
}

var (
	errNotRecorded = status.Error(codes.Internal, "the call has run, and its answer is not recorded: repeat it with the same key")
	errDone        = status.Error(codes.AlreadyExists, "the call was done, and its answer was not kept")
)

// toStatus returns the status for a call that was not handled. It reveals neither the key nor errors of Redis.
func toStatus(err error) error {
	switch {
	case errors.Is(err, context.Canceled): // during the wait
		return status.Error(codes.Canceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the first call with this key did not end in time")
	case errors.Is(err, idempotency.ErrInFlight):
		return retry(codes.Aborted, "the first call with this key is still being handled")
	case errors.Is(err, idempotency.ErrReused):
		return status.Error(codes.InvalidArgument, "the key was used for another request")
	case errors.Is(err, idempotency.ErrUnknownOutcome):
		return status.Error(codes.FailedPrecondition, "the outcome of an earlier call with this key is unknown")
	case errors.Is(err, idempotency.ErrKeyExpired):
		return status.Error(codes.FailedPrecondition, "the key is too old")
	case errors.Is(err, idempotency.ErrDone):
		return errDone
	case errors.Is(err, lockmw.ErrInvalidKey):
		return status.Error(codes.InvalidArgument, "the idempotency-key must have from 1 to 255 bytes")
	}
	return retry(codes.Unavailable, "the call was not handled, because the record of its key is not available")
}

func retry(code codes.Code, text string) error {
	s := status.New(code, text)
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}); err == nil {
		s = detailed
	}
	return s.Err()
}
