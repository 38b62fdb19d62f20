package recipes_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	pb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lockmw/go/examples/recipes/connectlock"
	"github.com/lockmw/go/grpcmw"
	"github.com/lockmw/go/internal/test/mounttest"
	"github.com/lockmw/go/lockmw"
)

// handleChecks is what the generated code of connect does for one method.
func handleChecks(check func(context.Context, *connect.Request[pb.HealthCheckRequest]) (*connect.Response[pb.HealthCheckResponse], error),
	opts ...connect.HandlerOption,
) (string, http.Handler) {
	return pb.Health_Check_FullMethodName, connect.NewUnaryHandler(pb.Health_Check_FullMethodName, check, opts...)
}

func TestConnectKeepsThePromises(t *testing.T) {
	t.Parallel()
	for _, c := range mounttest.Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, mountConnect, c.RPC) })
	}
}

func mountConnect(t *testing.T, s mounttest.Service) func(context.Context, string) mounttest.Answer {
	interceptors := []connect.Interceptor{connect.UnaryInterceptorFunc(recoverConnect)}
	keys := grpcmw.Keys{pb.Health_Check_FullMethodName: grpcmw.For(func(ctx context.Context, in *pb.HealthCheckRequest) (string, error) {
		return s.Key(ctx, in.GetService())
	})}
	for range s.Mounts {
		interceptors = append(interceptors, connectlock.Interceptor(grpcmw.Unary(s.Locks, keys, s.Options...)))
	}
	mux := http.NewServeMux()
	mux.Handle(handleChecks(func(ctx context.Context, _ *connect.Request[pb.HealthCheckRequest]) (*connect.Response[pb.HealthCheckResponse], error) {
		err := s.Handle(ctx)
		if errors.Is(err, mounttest.ErrNoStock) {
			err = connect.NewError(connect.CodeNotFound, err)
		}
		return connect.NewResponse(new(pb.HealthCheckResponse)), err
	}, connect.WithInterceptors(interceptors...)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client := connect.NewClient[pb.HealthCheckRequest, pb.HealthCheckResponse](server.Client(), server.URL+pb.Health_Check_FullMethodName)
	return func(ctx context.Context, user string) mounttest.Answer {
		_, err := client.CallUnary(ctx, connect.NewRequest(&pb.HealthCheckRequest{Service: user}))
		if err == nil {
			return mounttest.Answer{Outcome: "ok"}
		}
		answer := mounttest.Answer{Outcome: mounttest.Code(connect.CodeOf(err)), Text: err.Error()}
		if e, ok := errors.AsType[*connect.Error](err); ok {
			for _, d := range e.Details() {
				if v, err := d.Value(); err == nil {
					answer.Retry = v.(*errdetails.RetryInfo).GetRetryDelay().AsDuration()
				}
			}
		}
		return answer
	}
}

func recoverConnect(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		defer func() {
			if recover() != nil {
				err = connect.NewError(connect.CodeInternal, errors.New("the handler panicked"))
			}
		}()
		return next(ctx, req)
	}
}

// The interceptor may also be around a client, where it does nothing.
func TestAClientOfConnectIsNotLocked(t *testing.T) {
	t.Parallel()
	locks := lockmw.LockerFunc(func(ctx context.Context, _ string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		t.Error("a lock was requested")
		return ctx, nil, lockmw.ErrBusy
	})
	mux := http.NewServeMux()
	mux.Handle(handleChecks(func(context.Context, *connect.Request[pb.HealthCheckRequest]) (*connect.Response[pb.HealthCheckResponse], error) {
		return connect.NewResponse(new(pb.HealthCheckResponse)), nil
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	keys := grpcmw.Keys{pb.Health_Check_FullMethodName: grpcmw.For(lockmw.By("service", (*pb.HealthCheckRequest).GetService))}
	client := connect.NewClient[pb.HealthCheckRequest, pb.HealthCheckResponse](server.Client(), server.URL+pb.Health_Check_FullMethodName,
		connect.WithInterceptors(connectlock.Interceptor(grpcmw.Unary(locks, keys))))
	if _, err := client.CallUnary(t.Context(), connect.NewRequest(&pb.HealthCheckRequest{Service: "a"})); err != nil {
		t.Error(err)
	}
}

func TestKeysOfConnectMayComeFromHeaders(t *testing.T) {
	t.Parallel()
	local, locked := lockmw.NewLocal(), make(chan string, 1)
	locks := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		locked <- key
		return local.Lock(ctx, key, opts...)
	})
	keys := grpcmw.Keys{pb.Health_Check_FullMethodName: grpcmw.ForContext(lockmw.By("tenant", grpcmw.Metadata("x-tenant")))}
	mux := http.NewServeMux()
	mux.Handle(handleChecks(func(context.Context, *connect.Request[pb.HealthCheckRequest]) (*connect.Response[pb.HealthCheckResponse], error) {
		return connect.NewResponse(new(pb.HealthCheckResponse)), nil
	}, connect.WithInterceptors(connectlock.Interceptor(grpcmw.Unary(locks, keys)))))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client := connect.NewClient[pb.HealthCheckRequest, pb.HealthCheckResponse](server.Client(), server.URL+pb.Health_Check_FullMethodName)
	req := connect.NewRequest(&pb.HealthCheckRequest{})
	req.Header().Set("X-Tenant", "a")
	if _, err := client.CallUnary(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if key := <-locked; key != "tenant:a" {
		t.Errorf("locked %q", key)
	}
}
