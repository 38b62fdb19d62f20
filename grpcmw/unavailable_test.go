package grpcmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/go/grpcmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// A brokenStore has no records.
type brokenStore struct{ look error }

func (s brokenStore) Look(context.Context, string) (idempotency.Record, error) {
	return idempotency.Record{}, s.look
}

func (brokenStore) Begin(ctx context.Context, _ idempotency.Claim) (idempotency.Record, error) {
	return idempotency.Record{}, ctx.Err()
}

func (brokenStore) End(context.Context, idempotency.End) (bool, error) { return false, nil }
func (brokenStore) Void(context.Context, string, string) error         { return nil }

// A timeout of a connection is a context.DeadlineExceeded as well, and a lost lock cancels the context of the begin. The call
// itself has no deadline, and nobody has cancelled it.
func TestACallThatCannotBeginIsUnavailable(t *testing.T) {
	t.Parallel()
	lost := func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		held, hold, err := lockmw.NewLocal().Lock(ctx, key, opts...)
		held, cancel := context.WithCancelCause(held)
		cancel(lockmw.ErrLost)
		return held, hold, err
	}
	for name, test := range map[string]struct {
		locks lockmw.LockerFunc
		look  error
	}{
		"the store times out":           {lockmw.NewLocal().Lock, fmt.Errorf("dial: %w", context.DeadlineExceeded)},
		"the store cancels its request": {lockmw.NewLocal().Lock, fmt.Errorf("dial: %w", context.Canceled)},
		"the lock is lost before":       {lost, nil},
	} {
		runner := idempotency.New(test.locks, idempotency.WithStore(brokenStore{test.look}))
		calls := 0
		err := intercepted(t.Context(), runner, func(context.Context, any) (any, error) { calls++; return new(pb.SimpleResponse), nil })
		if s := status.Convert(err); s.Code() != codes.Unavailable || retryDelay(s) == 0 || calls != 0 {
			t.Errorf("%s: %v, retry after %v, %d calls", name, s, retryDelay(s), calls)
		}
	}
}

func TestACallThatIsCancelledWhileItsRecordIsReadIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	runner := idempotency.New(lockmw.LockerFunc(lockmw.NewLocal().Lock), idempotency.WithStore(brokenStore{context.Canceled}))
	err := intercepted(ctx, runner, func(context.Context, any) (any, error) { return new(pb.SimpleResponse), nil })
	if status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

// The service that has the key of the Sealer may fail with any error.
func TestAnAnswerThatCannotBeOpenedIsDone(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{context.DeadlineExceeded, context.Canceled, lockmw.ErrUnavailable, errors.New("no key")} {
		runner := idempotency.New(lockmw.NewLocal(), idempotency.WithSealer(idempotency.Sealer{
			Seal: func(plain []byte) ([]byte, error) { return plain, nil },
			Open: func([]byte) ([]byte, error) { return nil, failed },
		}))
		for i, want := range []codes.Code{codes.OK, codes.AlreadyExists} {
			err := intercepted(t.Context(), runner, func(context.Context, any) (any, error) { return new(pb.SimpleResponse), nil })
			if status.Code(err) != want {
				t.Errorf("%v: call %d: %v, want %v", failed, i+1, err, want)
			}
		}
	}
}

// intercepted is a call with a key, without a server.
func intercepted(ctx context.Context, runner *idempotency.Runner, handle grpc.UnaryHandler) error {
	info := &grpc.UnaryServerInfo{FullMethod: pb.TestService_UnaryCall_FullMethodName}
	_, err := grpcmw.Idempotent(runner, caller, once(idempotency.Refuse))(asUser(ctx), new(pb.SimpleRequest), info, handle)
	return err
}

// asUser returns the context of a call with a key.
func asUser(ctx context.Context) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs("x-user", "ann", "idempotency-key", "1"))
}
