package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // as main does
	goleak.VerifyTestMain(m)
}

// A call is a command line, and what there is around it.
type call struct {
	args []string
	env  map[string]string
	in   string
}

// result is what became of it.
type result struct {
	status   int
	out, err string
}

func (c call) run(ctx context.Context) result {
	var out, err strings.Builder
	io := console{in: strings.NewReader(c.in), out: &out, err: &err, env: func(name string) string { return c.env[name] }}
	status := run(ctx, io, c.args)
	return result{status, out.String(), err.String()}
}

// lockmwOn runs a command line for a server.
func lockmwOn(t *testing.T, s *redistest.Server, args ...string) result {
	t.Helper()
	return call{args: append(args, "--redis", s.Addr())}.run(t.Context())
}

// want checks a status and texts of both outputs.
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
	locks, err := lockmw.New(s.NewClient(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() }) // it ends holds that are left
	return locks
}

// take takes a lock until the test ends.
func take(t *testing.T, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold) {
	t.Helper()
	ctx, hold, err := l.Lock(t.Context(), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return ctx, hold
}

// idFor is the ID of a hold, as the commands print it.
func idFor(t *testing.T, s *redistest.Server, key string) string {
	t.Helper()
	inspector, err := lockmw.NewInspector(s.NewClient(t))
	if err != nil {
		t.Fatal(err)
	}
	status, err := inspector.Get(t.Context(), key)
	if err != nil || len(status.Holders) != 1 {
		t.Fatalf("%s is %+v, %v", key, status, err)
	}
	return idOf(status.Holders[0])
}

// limited is a context for a command that runs until it is interrupted.
func limited(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 300*time.Millisecond)
}
