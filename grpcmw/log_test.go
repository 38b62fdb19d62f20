package grpcmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockmw/go/grpcmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A person finds the ID of a run in the log, and resolves it with the response that the call should have had.
func TestAnUnknownOutcomeOfACallCanBeResolved(t *testing.T) {
	t.Parallel()
	var log usertest.Output
	runner := idempotency.New(usertest.Client(t, redistest.Mini(t), lockmw.WithLogger(log.Logger())))
	id := ""
	fails := func(ctx context.Context, _ any) (any, error) {
		run, _ := idempotency.FromContext(ctx)
		id = run.ID()
		return nil, status.Error(codes.Internal, "out of paper")
	}
	intercept := grpcmw.Idempotent(runner, caller, once(idempotency.Refuse))
	call := func() (any, error) {
		info := &grpc.UnaryServerInfo{FullMethod: pb.TestService_UnaryCall_FullMethodName}
		return intercept(asUser(t.Context()), new(pb.SimpleRequest), info, fails)
	}
	for range 3 {
		_, _ = call()
	}
	for _, line := range []string{"the outcome of a run is unknown", "a call was refused"} { // the latter once in a while
		if n := strings.Count(log.String(), line); n != 1 || strings.Count(log.String(), "run="+id) != 2 {
			t.Errorf("%q: %d lines, in\n%s", line, n, &log)
		}
	}
	for _, want := range []string{"code=Internal", "method=" + pb.TestService_UnaryCall_FullMethodName, "attempt=1", "error=<nil>"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &log)
		}
	}
	if strings.Contains(log.String(), "ann") {
		t.Errorf("the log has the scope:\n%s", &log)
	}
	answer, err := grpcmw.Answer(&pb.SimpleResponse{Payload: of("found")})
	if err == nil {
		err = runner.Resolve(t.Context(), idempotency.Key{Scope: "ann", ID: "1"}, id, &answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	resp, err := call()
	if got, ok := resp.(*pb.SimpleResponse); err != nil || !ok || string(got.GetPayload().GetBody()) != "found" {
		t.Errorf("a repetition gets %v, %v", resp, err)
	}
	if _, err := grpcmw.Answer(nil); err == nil {
		t.Error("an Answer without a response has no error")
	}
}

func TestAResponseThatIsNotRecordedIsLogged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seal error
		resp any
	}{
		"the Sealer fails": {errors.New("no disk"), new(pb.SimpleResponse)},
		"no message":       {nil, "text"},
	} {
		var log usertest.Output
		runner := idempotency.New(usertest.Client(t, redistest.Mini(t), lockmw.WithLogger(log.Logger())), idempotency.WithSealer(idempotency.Sealer{
			Seal: func(plain []byte) ([]byte, error) { return plain, test.seal },
			Open: func(sealed []byte) ([]byte, error) { return sealed, nil },
		}))
		err := intercepted(t.Context(), runner, func(context.Context, any) (any, error) { return test.resp, nil })
		if got := log.String(); status.Code(err) != codes.Internal || strings.Count(got, "\n") != 1 || !strings.Contains(got, "could not be recorded") {
			t.Errorf("%s: %v, and the log is\n%s", name, err, got)
		}
	}
}
