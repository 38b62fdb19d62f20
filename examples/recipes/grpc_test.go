package recipes_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/lockmw/go/examples/recipes/grpclock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// checks is a service whose calls a function handles.
type checks struct {
	grpc_health_v1.UnimplementedHealthServer
	handle func(context.Context) error
}

func (c checks) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, c.handle(ctx)
}

func (c checks) List(ctx context.Context, _ *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	return new(grpc_health_v1.HealthListResponse), c.handle(ctx)
}

// byService is the key function of Check. List has none.
var byService = grpclock.Keys{
	grpc_health_v1.Health_Check_FullMethodName: grpclock.For(lockmw.By("service", (*grpc_health_v1.HealthCheckRequest).GetService)),
}

// serveGRPC starts a server with the interceptor and returns its client.
func serveGRPC(t *testing.T, locks grpc.UnaryServerInterceptor, handle func(context.Context) error) grpc_health_v1.HealthClient {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer(grpc.UnaryInterceptor(locks))
	grpc_health_v1.RegisterHealthServer(server, checks{handle: handle})
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return grpc_health_v1.NewHealthClient(conn)
}

func check(ctx context.Context, c grpc_health_v1.HealthClient, service string) *status.Status {
	_, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	return status.Convert(err)
}

func TestCallsForTheSameKeyAreHandledOneAtATime(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	c := serveGRPC(t, grpclock.Unary(lockmw.NewLocal(), byService), func(ctx context.Context) error {
		if hold, ok := lockmw.FromContext(ctx); ok && hold.Key() == "service:slow" {
			begun <- struct{}{}
			<-end
		}
		return nil
	})
	done := make(chan *status.Status)
	go func() { done <- check(t.Context(), c, "slow") }()
	<-begun
	busy := check(t.Context(), c, "slow")
	if busy.Code() != codes.Aborted || strings.Contains(busy.Message(), "slow") {
		t.Errorf("while it is handled: %v", busy)
	}
	info, ok := (*errdetails.RetryInfo)(nil), false
	if details := busy.Details(); len(details) == 1 {
		info, ok = details[0].(*errdetails.RetryInfo)
	}
	if !ok || info.GetRetryDelay().AsDuration() <= 0 || info.GetRetryDelay().AsDuration() > time.Second {
		t.Errorf("the details are %v", busy.Details())
	}
	if other := check(t.Context(), c, "quick"); other.Code() != codes.OK {
		t.Errorf("another key: %v", other)
	}
	if _, err := c.List(t.Context(), new(grpc_health_v1.HealthListRequest)); err != nil {
		t.Errorf("a method without a key: %v", err)
	}
	end <- struct{}{}
	if first := <-done; first.Code() != codes.OK {
		t.Errorf("the first: %v", first)
	}
	go func() { <-begun; end <- struct{}{} }()
	if again := check(t.Context(), c, "slow"); again.Code() != codes.OK {
		t.Errorf("afterwards: %v", again)
	}
}

func TestTheErrorsOfALockAreStatuses(t *testing.T) {
	t.Parallel()
	const secret = "user:42 at 10.0.0.7"
	failing := func(err error) lockmw.Locker {
		return lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
			return ctx, nil, &lockmw.Error{Op: "lock", Key: secret, Err: errors.Join(err, errors.New(secret))}
		})
	}
	denied := status.Error(codes.Unauthenticated, "who are you?")
	keyFails := grpclock.Keys{grpc_health_v1.Health_Check_FullMethodName: func(context.Context, any) (string, error) { return "", denied }}
	wrongType := grpclock.Keys{
		grpc_health_v1.Health_Check_FullMethodName: grpclock.For(func(context.Context, *grpc_health_v1.HealthListRequest) (string, error) { return "k", nil }),
	}
	local := lockmw.NewLocal()
	for name, test := range map[string]struct {
		locks   lockmw.Locker
		keys    grpclock.Keys
		service string
		code    codes.Code
	}{
		"busy":              {failing(lockmw.ErrBusy), byService, "a", codes.Aborted},
		"too many waiters":  {failing(lockmw.ErrTooManyWaiters), byService, "a", codes.ResourceExhausted},
		"unavailable":       {failing(lockmw.ErrUnavailable), byService, "a", codes.Unavailable},
		"closed":            {failing(lockmw.ErrClosed), byService, "a", codes.Unavailable},
		"lost":              {failing(lockmw.ErrLost), byService, "a", codes.Internal},
		"the deadline":      {failing(errors.Join(lockmw.ErrBusy, context.DeadlineExceeded)), byService, "a", codes.DeadlineExceeded},
		"the caller left":   {failing(errors.Join(lockmw.ErrBusy, context.Canceled)), byService, "a", codes.Canceled},
		"no key":            {local, byService, "", codes.InvalidArgument},
		"the key's status":  {local, keyFails, "a", codes.Unauthenticated},
		"another's message": {local, wrongType, "a", codes.Internal},
		"anything else":     {failing(errors.New("lua")), byService, "a", codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serveGRPC(t, grpclock.Unary(test.locks, test.keys), func(context.Context) error {
				t.Error("the handler ran")
				return nil
			})
			if got := check(t.Context(), c, test.service); got.Code() != test.code || strings.Contains(got.String(), secret) {
				t.Errorf("got %v, want %v", got, test.code)
			}
		})
	}
}

func TestACallWhoseLockIsLost(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	for name, returned := range map[string]error{"success": nil, "an error": status.Error(codes.NotFound, "no such service")} {
		c := serveGRPC(t, grpclock.Unary(local, byService), func(ctx context.Context) error {
			local.Expire("service:a")
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
				t.Errorf("the context ends with %v", cause)
			}
			return returned
		})
		if got := check(t.Context(), c, "a"); got.Code() != codes.Internal || got.Message() != "the call lost its lock" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestACallWhoseClientOfLocksIsClosed(t *testing.T) {
	t.Parallel()
	locks, err := lockmw.New(redistest.Mini(t).NewClient(t))
	if err != nil {
		t.Fatal(err)
	}
	c := serveGRPC(t, grpclock.Unary(locks, byService), func(context.Context) error { return locks.Close() })
	if got := check(t.Context(), c, "a"); got.Code() != codes.Internal || got.Message() != "the call lost its lock" {
		t.Errorf("got %v", got)
	}
	if got := check(t.Context(), c, "a"); got.Code() != codes.Unavailable {
		t.Errorf("afterwards: %v", got)
	}
}

func TestAHandlersOwnStatusIsUntouched(t *testing.T) {
	t.Parallel()
	for _, err := range []error{status.Error(codes.NotFound, "no such service"), lockmw.ErrBusy} {
		c := serveGRPC(t, grpclock.Unary(lockmw.NewLocal(), byService), func(context.Context) error { return err })
		if got, want := check(t.Context(), c, "a"), status.Convert(err); got.Code() != want.Code() || got.Message() != want.Message() {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestAPanicOfAHandlerGoesOn(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	func() {
		defer func() {
			if recover() != "out of paper" {
				t.Error("the panic did not go on")
			}
		}()
		info := &grpc.UnaryServerInfo{FullMethod: grpc_health_v1.Health_Check_FullMethodName}
		_, _ = grpclock.Unary(local, byService)(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "a"}, info,
			func(context.Context, any) (any, error) { panic("out of paper") })
	}()
	_, hold, err := local.TryLock(t.Context(), "service:a")
	if err != nil {
		t.Fatalf("the lock was not released: %v", err)
	}
	_ = hold.Unlock()
}
