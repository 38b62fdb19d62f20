package recipes_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lockmw/go/examples/recipes/connectlock"
	"github.com/lockmw/go/examples/recipes/webhook"
	"github.com/lockmw/go/grpcmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

func Example_connect() {
	locks, mux := lockmw.NewLocal(), http.NewServeMux()
	check := func(context.Context, *connect.Request[pb.HealthCheckRequest]) (*connect.Response[pb.HealthCheckResponse], error) {
		return connect.NewResponse(new(pb.HealthCheckResponse)), nil
	}

	locked := connectlock.Interceptor(grpcmw.Unary(locks, grpcmw.Keys{
		pb.Health_Check_FullMethodName: grpcmw.For(lockmw.By("service", (*pb.HealthCheckRequest).GetService)),
	}))
	mux.Handle(handleChecks(check, connect.WithInterceptors(locked)))

	// Output:
}

func Example_webhook() {
	locks := lockmw.NewLocal()
	handleEvent := func(context.Context, []byte) error { return nil }

	mux := http.NewServeMux()
	once := idempotency.New(locks, idempotency.WithTTL(7*24*time.Hour)) // longer than the provider repeats events
	mux.Handle("POST /hooks/acme", checkSignature(webhook.Receive(once, "acme", "Acme-Event-Id", handleEvent)))

	fmt.Println(deliver(mux, "event-1").Code, deliver(mux, "event-1").Code)
	// Output: 204 204
}
