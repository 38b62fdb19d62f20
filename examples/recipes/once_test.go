package recipes_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/go/examples/recipes/echolock"
	"github.com/lockmw/go/examples/recipes/grpconce"
	"github.com/lockmw/go/examples/recipes/webhook"
	"github.com/lockmw/go/httpmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

func authenticateGin(c *gin.Context) { c.Request = identified(c.Request) }

func authenticateEcho(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		c.SetRequest(identified(c.Request()))
		return next(c)
	}
}

// authenticateCalls takes the caller from metadata, as if they were a verified token.
func authenticateCalls(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if ids := metadata.ValueFromIncomingContext(ctx, "x-user"); len(ids) == 1 {
		ctx = context.WithValue(ctx, callerKey{}, ids[0])
	}
	return handler(ctx, req)
}

func checkSignature(next http.Handler) http.Handler { return next }

// orderOnce orders with an Idempotency-Key and returns the body of the answer.
func orderOnce(h http.Handler, user, key string) string {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, "/orders", nil)
	req.Header.Set("X-User", user)
	req.Header.Set("Idempotency-Key", key)
	h.ServeHTTP(rec, req)
	return strings.TrimSpace(rec.Body.String())
}

// deliver sends an event as its provider does.
func deliver(h http.Handler, id string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, "/hooks/acme", strings.NewReader("paid"))
	if id != "" {
		req.Header.Set("Acme-Event-Id", id)
	}
	h.ServeHTTP(rec, req)
	return rec
}

func TestAnEventIsHandledUntilThatSucceeds(t *testing.T) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	calls := 0
	h := webhook.Receive(idempotency.New(lockmw.NewLocal()), "acme", "Acme-Event-Id", func(_ context.Context, event []byte) error {
		if calls++; calls == 1 || string(event) != "paid" {
			return errors.New("the database is down")
		}
		return nil
	})
	for i, want := range []struct {
		id          string
		code, calls int
	}{
		{"1", http.StatusServiceUnavailable, 1},
		{"1", http.StatusNoContent, 2},
		{"1", http.StatusNoContent, 2},
		{"2", http.StatusNoContent, 3},
		{"", http.StatusBadRequest, 3},
		{strings.Repeat("1", 256), http.StatusBadRequest, 3},
	} {
		if rec := deliver(h, want.id); rec.Code != want.code || calls != want.calls {
			t.Errorf("delivery %d: %d after %d calls, want %d after %d", i+1, rec.Code, calls, want.code, want.calls)
		}
	}
}

// An error of the handler is not kept as a success: what did nothing runs again, and a failure is an unknown outcome.
func TestErrorsOfEchoHandlersAreAnsweredInside(t *testing.T) {
	t.Parallel()
	var fails error
	e := echo.New()
	e.Use(authenticateEcho)
	repeat := echolock.Wrap(httpmw.Idempotent(idempotency.New(lockmw.NewLocal()), httpmw.Claim(caller), idempotency.Refuse))
	e.POST("/orders", func(c *echo.Context) error {
		if fails != nil {
			return fails
		}
		return c.JSON(http.StatusCreated, "done")
	}, repeat, echolock.AnswerErrors)
	for i, want := range []struct {
		fails  error
		answer string
	}{
		{echo.NewHTTPError(http.StatusUnprocessableEntity, "no stock"), "no stock"},
		{nil, "done"},
		{errors.New("never returned"), "done"},
	} {
		fails = want.fails
		if got := orderOnce(e, "42", "a"); !strings.Contains(got, want.answer) {
			t.Errorf("request %d: %s, want %s", i+1, got, want.answer)
		}
	}
	fails = errors.New("out of paper")
	if got := orderOnce(e, "42", "b"); !strings.Contains(got, "Internal Server Error") {
		t.Errorf("a failure: %s", got)
	}
	if got := orderOnce(e, "42", "b"); !strings.Contains(got, "idempotency-unknown-outcome") {
		t.Errorf("after a failure: %s", got)
	}
}

// A callOnce is one call of Check.
type callOnce struct {
	user, key, service string
	code               codes.Code
	replayed           bool
	calls              int // of the handler, after this call
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
		"refused by the handler": {idempotency.Refuse, status.Error(codes.NotFound, "no such service"), []callOnce{
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
			once := grpconce.Unary(idempotency.New(lockmw.NewLocal()), caller, grpconce.Methods{pb.Health_Check_FullMethodName: test.policy})
			interceptors := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				return authenticateCalls(ctx, req, info, func(ctx context.Context, req any) (any, error) { return once(ctx, req, info, handler) })
			}
			c := serveGRPC(t, interceptors, func(context.Context) error {
				if calls++; calls == 1 {
					return test.fails
				}
				return nil
			})
			for i, call := range test.calls {
				ctx := t.Context()
				for name, value := range map[string]string{"x-user": call.user, "idempotency-key": call.key} {
					if value != "" {
						ctx = metadata.AppendToOutgoingContext(ctx, name, value)
					}
				}
				var header metadata.MD
				resp, err := c.Check(ctx, &pb.HealthCheckRequest{Service: call.service}, grpc.Header(&header))
				if status.Code(err) != call.code || calls != call.calls || (len(header["idempotent-replayed"]) == 1) != call.replayed {
					t.Errorf("call %d: %v, %v after %d calls, want %+v", i+1, err, header, calls, call)
				}
				if err == nil && resp.GetStatus() != pb.HealthCheckResponse_SERVING {
					t.Errorf("call %d: %v", i+1, resp)
				}
			}
		})
	}
}

func TestAPanicOfACallIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	once := grpconce.Unary(idempotency.New(lockmw.NewLocal()), func(context.Context) (string, bool) { return "ann", true },
		grpconce.Methods{pb.Health_Check_FullMethodName: idempotency.Refuse})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("idempotency-key", "1"))
	call := func() (err error) {
		defer func() { _ = recover() }()
		info := &grpc.UnaryServerInfo{FullMethod: pb.Health_Check_FullMethodName}
		_, err = once(ctx, &pb.HealthCheckRequest{Service: "a"}, info, func(context.Context, any) (any, error) { panic("out of paper") })
		return err
	}
	if err := call(); err != nil {
		t.Errorf("the panic did not continue: %v", err)
	}
	if err := call(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the repetition: %v", err)
	}
}
