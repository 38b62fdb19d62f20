package grpcmw

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// Policies maps the full name of a method to the policy for its repeated calls. Use the constants that protoc generates as names. A
// method without an entry runs as without the interceptor, and so does a call without a key.
type Policies map[string]idempotency.Policy

// The metadata of a call and of a repeated answer.
const (
	keyMetadata      = "idempotency-key"
	replayedMetadata = "idempotent-replayed"
)

// Idempotent returns an interceptor that runs each unary call once for the idempotency-key in its metadata, and gives every
// repetition the first answer, with the header idempotent-replayed. A repetition that arrives while the first call is being handled
// waits for its answer: see idempotency.WithWait. caller returns the identity that authentication has put into the context, so that
// two callers who choose the same key have different ones.
//
// The first answer decides:
//
//   - A response is kept.
//   - InvalidArgument, NotFound, PermissionDenied, Unauthenticated, FailedPrecondition, OutOfRange and Unimplemented are forgotten,
//     because the handler did nothing: a repetition runs. The same is true if it calls idempotency.NotDone, and if Unary or another
//     Idempotent refuses the call inside.
//   - All other statuses, an error that wraps a status, and a panic are unknown outcomes, for which the policy decides.
//
// So a handler must not return the status of another service as it is if it may have done something before: the status would pass
// for its own refusal. Wrap it, or return Internal.
//
// The Runner's logger gets a line for each unknown outcome, and for its refused repetitions, with the ID of the run for
// idempotency.Runner.Resolve.
//
// A repetition must be the same request. Requests and responses are compared and kept in their binary form, so a release that
// renames a response type cannot read older ones. Idempotent panics if an argument is nil or a policy is not set.
func Idempotent(once *idempotency.Runner, caller func(context.Context) (string, bool), policies Policies) grpc.UnaryServerInterceptor {
	if caller == nil {
		panic("grpcmw: Idempotent: the function that returns the caller is nil, so all callers would share their keys")
	}
	for method, policy := range policies {
		if err := once.CheckPolicy(policy); err != nil {
			panic(fmt.Errorf("grpcmw: Idempotent: %s: %w", method, err))
		}
	}
	log := &journal{logger: once.Logger()}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		policy, listed := policies[info.FullMethod]
		ids := metadata.ValueFromIncomingContext(ctx, keyMetadata)
		if !listed || len(ids) == 0 {
			return handler(ctx, req)
		}
		key, text, err := identify(ctx, caller, ids, req)
		if err != nil {
			return refuse(ctx, err)
		}
		run, err := once.Begin(ctx, key, key.Fingerprint([]byte(info.FullMethod), text), policy)
		if errors.Is(err, idempotency.ErrNested) && !errors.Is(err, idempotency.ErrUnknownOutcome) {
			return handler(ctx, req)
		}
		if err != nil {
			log.refused(ctx, info.FullMethod, err)
			return refuse(ctx, idempotencyError(err))
		}
		if answer, done := run.Replay(); done {
			return replay(ctx, answer)
		}
		return log.handle(ctx, info.FullMethod, run, req, handler)
	}
}

// refuse returns the status of a call that is not handled: a run of an Idempotent outside has done nothing.
func refuse(ctx context.Context, status error) (any, error) {
	idempotency.NotDone(ctx)
	return nil, status
}

// identify returns the key of a call, and the bytes by which its request is compared, or a status.
func identify(ctx context.Context, caller func(context.Context) (string, bool), ids []string, req any) (key idempotency.Key, text []byte, err error) {
	scope, known := caller(ctx)
	in, isProto := req.(proto.Message)
	switch {
	case !known || scope == "":
		return key, nil, status.Error(codes.Unauthenticated, "an idempotency-key needs a caller that is known")
	case len(ids) > 1:
		return key, nil, status.Error(codes.InvalidArgument, "the idempotency-key is repeated")
	case !isProto:
		return key, nil, status.Error(codes.Internal, "the request is not a protobuf message")
	}
	text, err = proto.MarshalOptions{Deterministic: true}.Marshal(in)
	if err != nil {
		return key, nil, status.Error(codes.Internal, "the request cannot be compared")
	}
	return idempotency.Key{Scope: scope, ID: ids[0]}, text, nil
}

// handle runs the handler and records its answer before it returns it.
func (j *journal) handle(ctx context.Context, method string, run *idempotency.Run, req any, handler grpc.UnaryHandler) (any, error) {
	code, forget := "", false
	defer func() {
		switch {
		case run.IsNotDone():
			idempotency.NotDone(ctx) // a run outside has done nothing either
			j.failed(ctx, method, run, run.Forget())
		case forget:
			j.failed(ctx, method, run, run.Forget())
		default:
			cause := context.Cause(run.Context())
			if err := run.Leave(); !errors.Is(err, lockmw.ErrNotHeld) { // keep has not ended it
				j.unknown(ctx, method, run, code, cause)
				j.failed(ctx, method, run, err)
			}
		}
	}()
	resp, err := handler(run.Context(), req)
	code = status.Code(err).String()
	switch {
	case run.IsNotDone():
	case err == nil:
		return j.keep(ctx, method, run, resp)
	case isRefusal(err) && run.Context().Err() == nil:
		forget = true
	}
	return resp, err
}

// keep records a response. It returns a status instead if that fails.
func (j *journal) keep(ctx context.Context, method string, run *idempotency.Run, resp any) (any, error) {
	answer, err := answerOf(resp)
	if err == nil {
		err = run.Keep(answer)
	}
	if err != nil {
		_ = run.Leave() // unless Keep has ended the run
		j.failed(ctx, method, run, err)
		return nil, errNotRecorded
	}
	return resp, nil
}

// isRefusal reports whether a handler that returns err has done nothing, as with a 4xx in HTTP. Aborted, ResourceExhausted and
// AlreadyExists often come from a service that the handler calls, and so does a status that is wrapped.
func isRefusal(err error) bool {
	own, ok := err.(interface{ GRPCStatus() *status.Status })
	if !ok {
		return false
	}
	switch own.GRPCStatus().Code() {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}

// Answer returns the answer of a run that has returned response, for the function of idempotency.Recover and for
// idempotency.Runner.Resolve. It returns an error if response is nil or cannot be encoded.
func Answer(response proto.Message) (idempotency.Answer, error) {
	packed, err := anypb.New(response) // with its type, so that replay needs no list of types
	if err != nil {
		return idempotency.Answer{}, fmt.Errorf("grpcmw: Answer: %w", err)
	}
	body, err := proto.Marshal(packed)
	if err != nil {
		return idempotency.Answer{}, fmt.Errorf("grpcmw: Answer: %w", err)
	}
	return idempotency.Answer{Body: body}, nil
}

func answerOf(resp any) (idempotency.Answer, error) {
	message, ok := resp.(proto.Message)
	if !ok {
		return idempotency.Answer{}, errors.New("the response is not a protobuf message")
	}
	return Answer(message)
}

func replay(ctx context.Context, answer idempotency.Answer) (any, error) {
	var packed anypb.Any
	if answer.NoBody || proto.Unmarshal(answer.Body, &packed) != nil {
		return refuse(ctx, errDone)
	}
	resp, err := packed.UnmarshalNew()
	if err != nil {
		return refuse(ctx, errDone)
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(replayedMetadata, "true")) // fails only without a server
	return resp, nil
}
