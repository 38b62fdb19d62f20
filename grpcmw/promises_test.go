package grpcmw_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockmw/go/grpcmw"
	"github.com/lockmw/go/internal/test/mounttest"
	"github.com/lockmw/go/lockmw"
)

// The list of cases is shared with the modules for other frameworks.
func TestGRPCKeepsThePromises(t *testing.T) {
	t.Parallel()
	for kind, call := range calls {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for _, c := range mounttest.Cases() {
				t.Run(c.Name, func(t *testing.T) { c.Run(t, mount(call), c.RPC) })
			}
		})
	}
}

func mount(call func(context.Context, pb.TestServiceClient, string) error) mounttest.Mount {
	return func(t *testing.T, s mounttest.Service) func(context.Context, string) mounttest.Answer {
		unary := []grpc.UnaryServerInterceptor{recoverUnary}
		streams := []grpc.StreamServerInterceptor{recoverStream}
		for range s.Mounts {
			unary = append(unary, grpcmw.Unary(s.Locks, keysOf(s.Key), s.Options...))
			streams = append(streams, grpcmw.Stream(s.Locks, keysOf(s.Key), s.Options...))
		}
		client := serve(t, s.Handle, grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(streams...))
		return func(ctx context.Context, user string) mounttest.Answer {
			got := status.Convert(call(ctx, client, user))
			return mounttest.Answer{Outcome: mounttest.Code(got.Code()), Retry: retryDelay(got), Text: got.String()}
		}
	}
}

// keysOf returns the key functions of all methods but EmptyCall, made of one for users.
func keysOf(key lockmw.KeyFunc[string]) grpcmw.Keys {
	user := grpcmw.Metadata("x-user")
	fromContext := grpcmw.ForContext(func(ctx, in context.Context) (string, error) { return key(ctx, user(in)) })
	return grpcmw.Keys{
		pb.TestService_UnaryCall_FullMethodName: grpcmw.For(func(ctx context.Context, in *pb.SimpleRequest) (string, error) {
			return key(ctx, string(in.GetPayload().GetBody()))
		}),
		pb.TestService_StreamingOutputCall_FullMethodName: grpcmw.For(func(ctx context.Context, in *pb.StreamingOutputCallRequest) (string, error) {
			return key(ctx, string(in.GetPayload().GetBody()))
		}),
		pb.TestService_StreamingInputCall_FullMethodName: fromContext,
		pb.TestService_FullDuplexCall_FullMethodName:     fromContext,
	}
}
