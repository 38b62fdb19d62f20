package grpcmw_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/go/grpcmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// caller takes the caller from metadata, as if it were a verified token.
func caller(ctx context.Context) (string, bool) {
	user := grpcmw.Metadata("x-user")(ctx)
	return user, user != ""
}

// A callOnce is one unary call.
type callOnce struct {
	user, key, payload string
	code               codes.Code
	replayed           bool
	calls              int // of the handler, after this call
}

func (c callOnce) send(ctx context.Context, client pb.TestServiceClient) (code codes.Code, replayed bool, payload string) {
	for name, value := range map[string]string{"x-user": c.user, "idempotency-key": c.key} {
		if value != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, name, value)
		}
	}
	var header metadata.MD
	resp, err := client.UnaryCall(ctx, &pb.SimpleRequest{Payload: of(c.payload)}, grpc.Header(&header))
	return status.Code(err), len(header["idempotent-replayed"]) == 1, string(resp.GetPayload().GetBody())
}

func TestACallIsHandledOnceForItsKey(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy idempotency.Policy
		fails  error // of the first call of the handler
		calls  []callOnce
	}{
		"repeated": {idempotency.Refuse, nil, []callOnce{
			{"ann", "1", "a", codes.OK, false, 1},
			{"ann", "1", "a", codes.OK, true, 1},
			{"ann", "1", "b", codes.InvalidArgument, false, 1},
			{"ann", "2", "a", codes.OK, false, 2},
			{"bob", "1", "a", codes.OK, false, 3},
			{"bob", "", "a", codes.OK, false, 4},
			{"", "1", "a", codes.Unauthenticated, false, 4},
			{"ann", strings.Repeat("1", 256), "a", codes.InvalidArgument, false, 4},
		}},
		"a response that is too large": {idempotency.Refuse, nil, []callOnce{
			{"ann", "1", strings.Repeat("a", 1<<17), codes.OK, false, 1},
			{"ann", "1", strings.Repeat("a", 1<<17), codes.AlreadyExists, false, 1},
		}},
		"refused by the handler": {idempotency.Refuse, status.Error(codes.NotFound, "no such user"), []callOnce{
			{"ann", "1", "a", codes.NotFound, false, 1},
			{"ann", "1", "a", codes.OK, false, 2},
			{"ann", "1", "a", codes.OK, true, 2},
		}},
		"an unknown outcome, refused": {idempotency.Refuse, status.Error(codes.Internal, "out of paper"), []callOnce{
			{"ann", "1", "a", codes.Internal, false, 1},
			{"ann", "1", "a", codes.FailedPrecondition, false, 1},
		}},
		"an unknown outcome, run again": {idempotency.RunAgain, status.Error(codes.Internal, "out of paper"), []callOnce{
			{"ann", "1", "a", codes.Internal, false, 1},
			{"ann", "1", "a", codes.OK, false, 2},
			{"ann", "1", "a", codes.OK, true, 2},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			c := serve(t, func(context.Context) error {
				if calls++; calls == 1 {
					return test.fails
				}
				return nil
			}, grpc.UnaryInterceptor(grpcmw.Idempotent(idempotency.New(lockmw.NewLocal()), caller, once(test.policy))))
			for i, call := range test.calls {
				code, replayed, payload := call.send(t.Context(), c)
				if code != call.code || replayed != call.replayed || calls != call.calls {
					t.Errorf("call %d: %v, replayed %v, after %d calls, want %+v", i+1, code, replayed, calls, call)
				}
				if code == codes.OK && payload != call.payload {
					t.Errorf("call %d: the response is %.20s", i+1, payload)
				}
			}
		})
	}
}

func once(policy idempotency.Policy) grpcmw.Policies {
	return grpcmw.Policies{pb.TestService_UnaryCall_FullMethodName: policy}
}

// Unavailable is an unknown outcome if the handler returns it, but not if the lock inside has.
func TestACallThatItsLockRefusesHasDoneNothing(t *testing.T) {
	t.Parallel()
	for name, locked := range map[string]error{"busy": lockmw.ErrBusy, "unavailable": lockmw.ErrUnavailable} {
		calls, refused := 0, true
		local := lockmw.NewLocal()
		locks := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
			if refused {
				return ctx, nil, locked
			}
			return local.Lock(ctx, key, opts...)
		})
		c := serve(t, func(context.Context) error { calls++; return nil }, grpc.ChainUnaryInterceptor(
			grpcmw.Idempotent(idempotency.New(lockmw.NewLocal()), caller, once(idempotency.Refuse)), grpcmw.Unary(locks, byUser)))
		call := callOnce{user: "ann", key: "1", payload: "a"}
		if code, _, _ := call.send(t.Context(), c); code == codes.OK {
			t.Errorf("%s: the first call succeeds", name)
		}
		refused = false
		if code, replayed, _ := call.send(t.Context(), c); code != codes.OK || replayed || calls != 1 {
			t.Errorf("%s: the repetition: %v, replayed %v, after %d calls", name, code, replayed, calls)
		}
	}
}

// The outer run is for the tenant, the inner one for the user.
func TestARunThatHasDoneNothingIsForgottenInsideAndOutside(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"it fails":  func() error { return status.Error(codes.Internal, "out of paper") },
		"it panics": func() error { panic("out of paper") },
	} {
		tenant := func(context.Context) (string, bool) { return "shop", true }
		outer, inner := idempotency.New(lockmw.NewLocal()), idempotency.New(lockmw.NewLocal())
		calls := 0
		c := serve(t, func(ctx context.Context) error {
			if calls++; calls > 1 {
				return nil
			}
			idempotency.NotDone(ctx)
			return fail()
		}, grpc.ChainUnaryInterceptor(recoverUnary,
			grpcmw.Idempotent(outer, tenant, once(idempotency.Refuse)), grpcmw.Idempotent(inner, caller, once(idempotency.Refuse))))
		call := callOnce{user: "ann", key: "1", payload: "a"}
		for i, want := range []codes.Code{codes.Internal, codes.OK} {
			if code, _, _ := call.send(t.Context(), c); code != want {
				t.Errorf("%s: call %d: %v, want %v", name, i+1, code, want)
			}
		}
	}
}

// The function of Recover may fail with any error, such as the timeout of its own request to a provider.
func TestAnOutcomeThatIsNotFoundOutStaysUnknown(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{
		context.DeadlineExceeded, context.Canceled, idempotency.ErrInFlight, idempotency.ErrReused, idempotency.ErrDone, lockmw.ErrInvalidKey, io.EOF,
	} {
		ask := idempotency.Recover(func(context.Context, idempotency.Unfinished) (idempotency.Answer, error) {
			return idempotency.Answer{}, fmt.Errorf("asking the provider: %w", failed)
		})
		c := serve(t, func(context.Context) error { return status.Error(codes.Internal, "out of paper") },
			grpc.UnaryInterceptor(grpcmw.Idempotent(idempotency.New(lockmw.NewLocal()), caller, once(ask))))
		call := callOnce{user: "ann", key: "1", payload: "a"}
		for i, want := range []codes.Code{codes.Internal, codes.FailedPrecondition} {
			if code, _, _ := call.send(t.Context(), c); code != want {
				t.Errorf("%v: call %d: %v, want %v", failed, i+1, code, want)
			}
		}
	}
}

// A handler whose context has ended before it begins would only fail, and leave an unknown outcome.
func TestACallWhoseClientLeavesBeforeItBeginsHasDoneNothing(t *testing.T) {
	t.Parallel()
	for want, until := range map[codes.Code]func(context.Context) (context.Context, context.CancelFunc){
		codes.Canceled:         context.WithCancel,
		codes.DeadlineExceeded: usertest.WithDeadline,
	} {
		leave := func() {}
		locks := usertest.Client(t, redistest.Mini(t), lockmw.WithObserver(&lockmw.Observer{
			Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context { leave(); return ctx },
		}))
		intercept := grpcmw.Idempotent(idempotency.New(locks), caller, once(idempotency.Refuse))
		info := &grpc.UnaryServerInfo{FullMethod: pb.TestService_UnaryCall_FullMethodName}
		calls := 0
		handle := func(ctx context.Context, _ any) (any, error) { calls++; return new(pb.SimpleResponse), ctx.Err() }
		in := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-user", "ann", "idempotency-key", "1"))
		var first context.Context
		first, leave = until(in)
		if _, err := intercept(first, new(pb.SimpleRequest), info, handle); status.Code(err) != want {
			t.Errorf("the call: %v, want %v", err, want)
		}
		leave = func() {}
		if _, err := intercept(in, new(pb.SimpleRequest), info, handle); err != nil || calls != 1 {
			t.Errorf("%v: the repetition: %v, after %d calls of the handler", want, err, calls)
		}
	}
}

func TestAPanicOfACallIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	c := serve(t, func(context.Context) error { panic("out of paper") }, grpc.ChainUnaryInterceptor(
		recoverUnary, grpcmw.Idempotent(idempotency.New(lockmw.NewLocal()), caller, once(idempotency.Refuse))))
	call := callOnce{user: "ann", key: "1", payload: "a"}
	for i, want := range []codes.Code{codes.Internal, codes.FailedPrecondition} {
		if code, _, _ := call.send(t.Context(), c); code != want {
			t.Errorf("call %d: %v, want %v", i+1, code, want)
		}
	}
}

func TestARepetitionDuringTheFirstCallIsTold(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	runner := idempotency.New(lockmw.NewLocal(), idempotency.WithWait(0))
	c := serve(t, func(context.Context) error { close(begun); <-end; return nil },
		grpc.UnaryInterceptor(grpcmw.Idempotent(runner, caller, once(idempotency.Refuse))))
	call := callOnce{user: "ann", key: "1", payload: "a"}
	first := make(chan codes.Code, 1)
	go func() { code, _, _ := call.send(t.Context(), c); first <- code }()
	<-begun
	if code, _, _ := call.send(t.Context(), c); code != codes.Aborted {
		t.Errorf("meanwhile: %v", code)
	}
	close(end)
	if code := <-first; code != codes.OK {
		t.Errorf("the first: %v", code)
	}
}

func TestIdempotentPanicsOnMistakes(t *testing.T) {
	t.Parallel()
	runner := idempotency.New(lockmw.NewLocal())
	for name, f := range map[string]func(){
		"no Runner": func() { grpcmw.Idempotent(nil, caller, once(idempotency.Refuse)) },
		"no caller": func() { grpcmw.Idempotent(runner, nil, once(idempotency.Refuse)) },
		"no policy": func() { grpcmw.Idempotent(runner, caller, grpcmw.Policies{"/m": {}}) },
	} {
		if usertest.Recovered(f) == nil {
			t.Errorf("%s: no panic", name)
		}
	}
}
