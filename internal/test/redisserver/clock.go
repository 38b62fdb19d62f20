package redisserver

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// clockVariable is the environment variable by which a server finds its clock.
const clockVariable = "LOCKMW_CLOCK"

// ErrNoClock means that servers with a clock of their own cannot be had here: that takes Linux and gcc.
var ErrNoClock = errors.New("a server's own clock takes Linux and gcc")

// compiler is the program that compiles the library of a server's own clock.
const compiler = "gcc"

// clockLibrary is buildClock's, which is needed once.
var clockLibrary = sync.OnceValues(buildClock)

// buildClock returns the library by which a process has a clock of its own. libfaketime of Debian 12 would not do: it asks
// the C library, which is not ready when the allocator of Redis tells the time, and the server never starts.
func buildClock() ([]byte, error) {
	if _, err := exec.LookPath(compiler); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoClock, err)
	}
	dir, err := os.MkdirTemp("", "lockmw-clock")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling a clock: %w: %s", err, out)
	}
	return os.ReadFile(library)
}

// StartClocked is Start for a server with a clock of its own, which is that far ahead of this machine's, and which
// StepClock sets. The error may be ErrNoClock. What Redis measures by monotonic clocks stays as it is.
func StartClocked(ctx context.Context, ahead time.Duration, args ...string) (*Server, error) {
	return launch(ctx, func(s *Server, port string) error {
		s.args = append([]string{
			"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
			// It would not rest while the clock is behind: pthread_cond_timedwait has the machine's clock.
			"--jemalloc-bg-thread", "no",
		}, args...)
		if s.clock != nil { // only the port was taken
			return nil
		}
		library, err := clockLibrary()
		if err != nil {
			return err
		}
		preload, file := filepath.Join(s.dir, "clock.so"), filepath.Join(s.dir, "clock")
		if err := os.WriteFile(preload, library, 0o600); err != nil {
			return err
		}
		if s.clock, err = newClock(file); err != nil {
			return err
		}
		s.clock.step(ahead)
		s.env = []string{"LD_PRELOAD=" + preload, clockVariable + "=" + file}
		return nil
	})
}

// StepClock moves the clock of a server that StartClocked has started by d, forwards or backwards.
func (s *Server) StepClock(d time.Duration) { s.clock.step(d) }
