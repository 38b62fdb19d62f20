package grpcmw_test

import (
	"context"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lockmw/go/grpcmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// Calls for the same service are handled one at a time.
func ExampleUnary() {
	locks := lockmw.NewLocal() // in a server: lockmw.New

	keys := grpcmw.Keys{
		pb.Health_Check_FullMethodName: grpcmw.For(lockmw.By("service", (*pb.HealthCheckRequest).GetService)),
		pb.Health_Watch_FullMethodName: grpcmw.ForContext(lockmw.By("tenant", grpcmw.Metadata("x-tenant"))),
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpcmw.Unary(locks, keys)),
		grpc.ChainStreamInterceptor(grpcmw.Stream(locks, keys)),
	)

	server.Stop()
	// Output:
}

// A repetition with the same key gets the first answer.
func ExampleIdempotent() {
	locks := lockmw.NewLocal()
	once := idempotency.New(locks)
	caller := func(context.Context) (string, bool) { return "ann", true }
	var authenticate grpc.UnaryServerInterceptor = func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return handler(ctx, req)
	}
	lock := grpcmw.Unary(locks, nil)

	repeat := grpcmw.Idempotent(once, caller, grpcmw.Policies{
		pb.Health_Check_FullMethodName: idempotency.Refuse,
	})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(authenticate, repeat, lock))

	server.Stop()
	// Output:
}
