package grpcmw_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockmw/go/grpcmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// Other statuses come from services that the handler calls, perhaps after it has charged a customer.
func TestOnlyRefusalsOfTheHandlerItselfAreForgotten(t *testing.T) {
	t.Parallel()
	forgotten := []codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented,
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for name, test := range map[string]struct {
			err  error
			runs int
		}{
			"returned": {status.Error(code, "no"), map[bool]int{true: 2, false: 1}[slices.Contains(forgotten, code)]},
			"wrapped":  {fmt.Errorf("pay: %w", status.Error(code, "no")), 1},
		} {
			runner, runs := idempotency.New(lockmw.NewLocal()), 0
			for range 2 {
				_ = intercepted(t.Context(), runner, func(context.Context, any) (any, error) { runs++; return nil, test.err })
			}
			if runs != test.runs {
				t.Errorf("%v, %s: %d runs, want %d", code, name, runs, test.runs)
			}
		}
	}
}

// As with a lock inside, whatever the status is.
func TestACallThatAnotherIdempotentRefusesHasDoneNothing(t *testing.T) {
	t.Parallel()
	shop := func(context.Context) (string, bool) { return "shop", true }
	nobody := func(context.Context) (string, bool) { return "", false }
	done := idempotency.New(lockmw.NewLocal(), idempotency.WithMaxBody(0))
	answer := func(context.Context, any) (any, error) { return new(pb.SimpleResponse), nil }
	if err := intercepted(t.Context(), done, answer); err != nil {
		t.Fatal(err)
	}
	unavailable := idempotency.New(lockmw.LockerFunc(lockmw.NewLocal().Lock), idempotency.WithStore(brokenStore{lockmw.ErrUnavailable}))
	info := &grpc.UnaryServerInfo{FullMethod: pb.TestService_UnaryCall_FullMethodName}
	for want, inner := range map[codes.Code]grpc.UnaryServerInterceptor{
		codes.Unavailable:     grpcmw.Idempotent(unavailable, caller, once(idempotency.Refuse)),
		codes.Unauthenticated: grpcmw.Idempotent(done, nobody, once(idempotency.Refuse)),
		codes.AlreadyExists:   grpcmw.Idempotent(done, caller, once(idempotency.Refuse)),
	} {
		outer := idempotency.New(lockmw.NewLocal())
		for i := range 2 {
			_, err := grpcmw.Idempotent(outer, shop, once(idempotency.Refuse))(asUser(t.Context()), new(pb.SimpleRequest), info, func(ctx context.Context, req any) (any, error) {
				return inner(ctx, req, info, answer)
			})
			if status.Code(err) != want {
				t.Errorf("call %d: %v, want %v", i+1, err, want)
			}
		}
	}
}
