package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redisserver"
)

// Redis starts a redis-server for the test on a free port, without persistence, stopped when the test ends. args are added to
// its command line, e.g. "--maxmemory", "3mb".
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return startReal(t, redisserver.Start, args)
}

// Kept are arguments of a server that finds every write that it has confirmed when it is restarted after a kill. It hands each
// write to the kernel before it answers, which only a crash of the machine undoes. So it need not wait for the disk, as
// appendfsync always does: on a busy machine that takes too long for some tests. appendfsync everysec may answer first.
var Kept = []string{"--appendonly", "yes", "--appendfsync", "no"}

// Clocked is Redis for a server with its own clock, which is that far ahead of this machine's, or behind it if negative. The
// test is skipped where no compiler is installed.
func Clocked(t testing.TB, ahead time.Duration, args ...string) *Server {
	t.Helper()
	return startReal(t, clocked(ahead), args)
}

// A starter starts a server.
type starter func(ctx context.Context, args ...string) (*redisserver.Server, error)

func clocked(ahead time.Duration) starter {
	return func(ctx context.Context, args ...string) (*redisserver.Server, error) {
		return redisserver.StartClocked(ctx, ahead, args...)
	}
}

func startReal(t testing.TB, start starter, args []string) *Server {
	t.Helper()
	server := newReal(t, start, args)
	t.Cleanup(server.Close)
	return &Server{real: server, addr: server.Addr()}
}

// newReal starts a server that the caller has to close.
func newReal(t testing.TB, start starter, args []string) *redisserver.Server {
	t.Helper()
	skipIfExternal(t)
	server, err := start(t.Context(), args...)
	missing := errors.Is(err, redisserver.ErrNotInstalled) || errors.Is(err, redisserver.ErrNoClock)
	switch {
	case missing && os.Getenv("LOCKMW_REQUIRE_REDIS") != "1":
		t.Skip(err)
	case err != nil:
		t.Fatalf("a real Redis is required: %v", err)
	}
	return server
}

// Pause stops a real server's process; Resume continues it.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.away.Store(true)
	pause(t, s.real)
}

// Resume ends Pause.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	resume(t, s.real)
	s.away.Store(false)
}

// StepClock moves the clock of a Clocked server by d, forwards or backwards, and returns when the server has noticed. Valkey 9.1
// reads its clock only once a millisecond.
func (s *Server) StepClock(t testing.TB, d time.Duration) {
	t.Helper()
	rdb := s.NewClient(t)
	ahead := s.real.StepClock(d)
	await(t, "the server reads its clock", func() string {
		const old = 2 * time.Millisecond
		before := time.Now().Add(ahead)
		got, err := rdb.Time(t.Context()).Result()
		if after := time.Now().Add(ahead); err != nil || got.Before(before.Add(-old)) || got.After(after) {
			return fmt.Sprintf("it is %v, %v; want %v", got, err, before)
		}
		return ""
	})
}

// Kill ends a real server immediately: it saves nothing.
func (s *Server) Kill() {
	s.away.Store(true)
	s.real.Kill()
}

// Restart starts a killed server again, at the same address and with the data on its disk. args are added to its command line
// from now on.
func (s *Server) Restart(t testing.TB, args ...string) {
	t.Helper()
	if err := s.real.Restart(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	s.away.Store(false)
}

// A pauser is a process that can be stopped and continued.
type pauser interface {
	Pause(ctx context.Context) error
	Resume() error
}

// pause stops p. The test is skipped where processes cannot be stopped.
func pause(t testing.TB, p pauser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	switch err := p.Pause(ctx); {
	case errors.Is(err, errors.ErrUnsupported):
		t.Skip(err)
	case err != nil:
		t.Fatalf("stopping a process: %v", err)
	}
}

func resume(t testing.TB, p pauser) {
	t.Helper()
	if err := p.Resume(); err != nil {
		t.Fatalf("resuming a process: %v", err)
	}
}
