package grpcmw_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockmw/go/grpcmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// byUser has a lock for each user.
var byUser = keysOf(lockmw.By("user", func(user string) string { return user }))

// both returns the options of a server with both interceptors.
func both(l lockmw.Locker, keys grpcmw.Keys, opts ...lockmw.Option) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.UnaryInterceptor(grpcmw.Unary(l, keys, opts...)), grpc.StreamInterceptor(grpcmw.Stream(l, keys, opts...))}
}

func nothing(context.Context) error { return nil }

func TestAMethodWithoutAKeyRunsWithoutALock(t *testing.T) {
	t.Parallel()
	locks := lockmw.LockerFunc(func(context.Context, string, ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		t.Error("a lock was requested")
		return nil, nil, lockmw.ErrBusy
	})
	c := serve(t, nothing, both(locks, grpcmw.Keys{})...)
	if _, err := c.EmptyCall(t.Context(), new(pb.Empty)); err != nil {
		t.Error(err)
	}
	for kind, call := range calls {
		if err := call(t.Context(), c, "42"); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestAKeyFunctionMayReturnAStatus(t *testing.T) {
	t.Parallel()
	c := serve(t, nothing, both(lockmw.NewLocal(), keysOf(func(context.Context, string) (string, error) {
		return "", status.Error(codes.Unauthenticated, "who are you?")
	}))...)
	for kind, call := range calls {
		if err := call(t.Context(), c, "42"); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A key of another message, or of a message that a client stream does not have yet, is a mistake of the service.
func TestAKeyOfAnotherMessageIsInternal(t *testing.T) {
	t.Parallel()
	other := grpcmw.For(func(context.Context, *pb.Empty) (string, error) { return "k", nil })
	keys := make(grpcmw.Keys)
	for method := range byUser {
		keys[method] = other
	}
	c := serve(t, func(context.Context) error { t.Error("the method was called"); return nil }, both(lockmw.NewLocal(), keys)...)
	for kind, call := range calls {
		if err := call(t.Context(), c, "42"); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestTheClientOfLocksIsClosedDuringACall(t *testing.T) {
	t.Parallel()
	for kind, call := range calls {
		locks := usertest.Client(t, redistest.Mini(t))
		c := serve(t, func(context.Context) error { return locks.Close() }, both(locks, byUser)...)
		if err := call(t.Context(), c, "42"); status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", kind, err)
		}
		if err := call(t.Context(), c, "42"); status.Code(err) != codes.Unavailable {
			t.Errorf("%s, afterwards: %v", kind, err)
		}
	}
}

func TestAHandlersOwnErrorIsUntouched(t *testing.T) {
	t.Parallel()
	for _, own := range []error{status.Error(codes.NotFound, "no such user"), lockmw.ErrBusy} {
		c := serve(t, func(context.Context) error { return own }, both(lockmw.NewLocal(), byUser)...)
		for kind, call := range calls {
			got, want := status.Convert(call(t.Context(), c, "42")), status.Convert(own)
			if got.Code() != want.Code() || got.Message() != want.Message() {
				t.Errorf("%s: %v, want %v", kind, got, want)
			}
		}
	}
}

// A streamer sends a message, loses its lock, and returns as if nothing had happened.
type streamer struct {
	pb.UnimplementedTestServiceServer
	local *lockmw.Local
}

func (s streamer) StreamingOutputCall(_ *pb.StreamingOutputCallRequest, out grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
	err := out.Send(new(pb.StreamingOutputCallResponse))
	s.local.Expire("user:42")
	<-out.Context().Done()
	return err
}

func TestAStreamThatHasBegunEndsWithTheLoss(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	stream := grpcmw.Stream(local, byUser)
	c := serve(t, nil, grpc.StreamInterceptor(func(_ any, s grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		return stream(streamer{local: local}, s, info, h)
	}))
	out, err := c.StreamingOutputCall(t.Context(), &pb.StreamingOutputCallRequest{Payload: of("42")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Recv(); err != nil {
		t.Errorf("the message before the loss: %v", err)
	}
	if _, err := out.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("the end: %v", err)
	}
}

// A client learns how long a minimum hold keeps the lock taken.
func TestTheDelayIsTheRestOfAMinimumHold(t *testing.T) {
	t.Parallel()
	c := serve(t, nothing, both(lockmw.NewLocal(), byUser, lockmw.WithMinHold(time.Hour))...)
	for kind, call := range calls {
		if err := call(t.Context(), c, kind); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		again := status.Convert(call(t.Context(), c, kind))
		if delay := retryDelay(again); again.Code() != codes.Aborted || delay < 5*time.Minute || delay > 6*time.Minute {
			t.Errorf("%s: %v, with a delay of %v", kind, again, delay)
		}
	}
}

func TestMistakesPanicWhenTheServerStarts(t *testing.T) {
	t.Parallel()
	local := lockmw.NewLocal()
	for name, make := range map[string]func(lockmw.Locker, grpcmw.Keys, ...lockmw.Option){
		"Unary":  func(l lockmw.Locker, k grpcmw.Keys, o ...lockmw.Option) { grpcmw.Unary(l, k, o...) },
		"Stream": func(l lockmw.Locker, k grpcmw.Keys, o ...lockmw.Option) { grpcmw.Stream(l, k, o...) },
	} {
		for mistake, f := range map[string]func(){
			"no Locker":         func() { make(nil, byUser) },
			"a nil key":         func() { make(local, grpcmw.Keys{"/m": nil}) },
			"an invalid option": func() { make(local, byUser, lockmw.WithLease(-1)) },
			"WithPlace":         func() { make(local, byUser, lockmw.WithPlace("a", time.Minute)) },
		} {
			if usertest.Recovered(f) == nil {
				t.Errorf("%s with %s does not panic", name, mistake)
			}
		}
	}
}

func TestErrorIsForHandlersThatLockThemselves(t *testing.T) {
	t.Parallel()
	if err := grpcmw.Error(nil); err != nil {
		t.Errorf("nil: %v", err)
	}
	if err := grpcmw.Error(&lockmw.Error{Op: "lock", Err: lockmw.ErrBusy}); status.Code(err) != codes.Aborted {
		t.Errorf("busy: %v", err)
	}
	late := fmt.Errorf("%w: %w", lockmw.ErrBusy, context.DeadlineExceeded)
	if err := grpcmw.Error(&lockmw.Error{Op: "lock", Err: late}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the deadline has passed: %v", err)
	}
	if err := grpcmw.Error(errors.New("lua")); status.Code(err) != codes.Internal {
		t.Errorf("anything else: %v", err)
	}
}

// The context of a call may end with the loss of another lock, or before the loss of its own.
func TestALossThatIsNotTheFirstEndOfTheContext(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*lockmw.Local, context.CancelFunc){
		"the loss of an outer lock":    func(l *lockmw.Local, _ context.CancelFunc) { l.Expire("tenant:1") },
		"a loss after the caller left": func(l *lockmw.Local, leave context.CancelFunc) { leave(); l.Expire("user:42") },
	} {
		local := lockmw.NewLocal()
		ctx, leave := context.WithCancel(t.Context())
		outer, hold := usertest.Lock(t, ctx, local, "tenant:1")
		info := &grpc.UnaryServerInfo{FullMethod: pb.TestService_UnaryCall_FullMethodName}
		_, err := grpcmw.Unary(local, byUser)(outer, &pb.SimpleRequest{Payload: of("42")}, info, func(ctx context.Context, _ any) (any, error) {
			end(local, leave)
			<-ctx.Done()
			return new(pb.SimpleResponse), nil
		})
		if status.Code(err) != codes.Internal {
			t.Errorf("%s: %v", name, err)
		}
		_ = hold.Unlock()
		leave()
	}
}

// A contextStream is a stream that has only a context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // as every stream
}

func (s contextStream) Context() context.Context { return s.ctx }

// A call ends just as its lock is granted. Its handler would only fail, and leave an unknown outcome to an Idempotent outside.
func TestALockThatComesTooLateIsReleased(t *testing.T) {
	t.Parallel()
	own := errors.New("shutting down")
	for name, test := range map[string]struct {
		end  func(cancel context.CancelCauseFunc, l *lockmw.Local)
		want codes.Code
	}{
		"the client has gone":    {func(cancel context.CancelCauseFunc, _ *lockmw.Local) { cancel(nil) }, codes.Canceled},
		"the server shuts down":  {func(cancel context.CancelCauseFunc, _ *lockmw.Local) { cancel(own) }, codes.Canceled},
		"the lock is lost again": {func(_ context.CancelCauseFunc, l *lockmw.Local) { l.Expire("user:42") }, codes.Internal},
	} {
		for kind, call := range map[string]func(context.Context, lockmw.Locker, func() error) error{
			"unary": func(ctx context.Context, l lockmw.Locker, handle func() error) error {
				info := &grpc.UnaryServerInfo{FullMethod: pb.TestService_UnaryCall_FullMethodName}
				_, err := grpcmw.Unary(l, byUser)(ctx, &pb.SimpleRequest{Payload: of("42")}, info, func(context.Context, any) (any, error) { return nil, handle() })
				return err
			},
			"stream": func(ctx context.Context, l lockmw.Locker, handle func() error) error {
				keys := grpcmw.Keys{"/stream": func(context.Context, any) (string, error) { return "user:42", nil }}
				info := &grpc.StreamServerInfo{FullMethod: "/stream", IsClientStream: true}
				return grpcmw.Stream(l, keys)(nil, contextStream{ctx: ctx}, info, func(any, grpc.ServerStream) error { return handle() })
			},
		} {
			local := lockmw.NewLocal()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			granting := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
				ctx, hold, err := local.Lock(ctx, key, opts...)
				test.end(cancel, local)
				return ctx, hold, err
			})
			err := call(ctx, granting, func() error { t.Errorf("%s, %s: the handler was called", name, kind); return nil })
			if status.Code(err) != test.want {
				t.Errorf("%s, %s: %v, want %v", name, kind, err, test.want)
			}
			if !usertest.IsFree(local, "user:42") {
				t.Errorf("%s, %s: the lock was kept", name, kind)
			}
		}
	}
}

func TestAWaitForAnotherCallIsNotReportedAsASelfWait(t *testing.T) {
	usertest.NoSelfWait(t, func(t *testing.T, c *lockmw.Client, work func()) {
		intercept := grpcmw.Unary(c, byUser, lockmw.WithWait(10*time.Second))
		info := &grpc.UnaryServerInfo{FullMethod: pb.TestService_UnaryCall_FullMethodName}
		_, err := intercept(context.Background(), &pb.SimpleRequest{Payload: of("7")}, info, func(context.Context, any) (any, error) {
			work()
			return nil, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
