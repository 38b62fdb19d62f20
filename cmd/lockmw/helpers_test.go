package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/cmd/lockmw/internal/verify"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // as main does
	verify.Main(connectWorker)
	leak.VerifyMain(m.Run)
}

// A call is a command line with its environment.
type call struct {
	args []string
	env  map[string]string
	in   string
}

// result has the exit status and output of a call.
type result struct {
	status   int
	out, err string
}

func (c call) run(ctx context.Context) result {
	var out, err strings.Builder
	around := console{in: strings.NewReader(c.in), out: &out, err: &err, env: func(name string) string { return c.env[name] }}
	status := run(ctx, around, c.args)
	return result{status, out.String(), err.String()}
}

// start runs a command line until ctx ends or out is closed, and then sends its exit status.
func start(t *testing.T, ctx context.Context, args ...string) (out *io.PipeReader, ended <-chan int) {
	t.Helper()
	out, in := io.Pipe()
	status := make(chan int, 1)
	go func() {
		defer close(status)
		c := console{in: strings.NewReader(""), out: in, err: t.Output(), env: func(string) string { return "" }}
		status <- run(ctx, c, args)
		_ = in.Close() // ends the reader
	}()
	return out, status
}

// lockmwOn runs a command line for a server.
func lockmwOn(t *testing.T, s *redistest.Server, args ...string) result {
	t.Helper()
	return call{args: append(args, "--redis", s.Addr())}.run(t.Context())
}

// want checks the exit status and texts in the two outputs.
func (r result) want(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("the exit status is %d, want %d", r.status, status)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			t.Errorf("%q is missing", text)
		}
	}
	if t.Failed() {
		t.Logf("out:\n%s\nerr:\n%s", r.out, r.err)
	}
}

func newClient(t *testing.T, s *redistest.Server, opts ...lockmw.ClientOption) *lockmw.Client {
	t.Helper()
	return usertest.Abandoned(t, s.NewClient(t), opts...) // its Close ends leftover holds
}

// take takes a lock until the test ends.
func take(t *testing.T, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold) {
	t.Helper()
	return usertest.Lock(t, t.Context(), l, key, opts...)
}

// idFor returns the ID of a hold, as the commands print it.
func idFor(t *testing.T, s *redistest.Server, key string) string {
	t.Helper()
	status, err := usertest.Inspector(t, s.NewClient(t)).Get(t.Context(), key)
	if err != nil || len(status.Holders) != 1 {
		t.Fatalf("%s is %+v, %v", key, status, err)
	}
	return idOf(status.Holders[0])
}

// limited returns a context for a command that runs until it is interrupted.
func limited(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 300*time.Millisecond)
}
