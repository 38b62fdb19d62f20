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

// clockVariable is the environment variable that names a server's clock.
const clockVariable = "LOCKMW_CLOCK"

// ErrNoClock means that no server can have its own clock here: that requires Linux and gcc.
var ErrNoClock = errors.New("a server's own clock requires Linux and gcc")

// compiler compiles the library of a server's own clock.
const compiler = "gcc"

// clockLibrary calls buildClock once.
var clockLibrary = sync.OnceValues(buildClock)

// buildClock returns the library that gives a process its own clock. libfaketime of Debian 12 does not work: it asks the C
// library, which is not ready when the allocator of Redis reads the time, and the server never starts.
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

// StartClocked is Start for a server with its own clock, which is that far ahead of this machine's, or behind it if negative.
// StepClock steps it. The error may be ErrNoClock. Monotonic clocks of Redis are not affected.
func StartClocked(ctx context.Context, ahead time.Duration, args ...string) (*Server, error) {
	return launch(ctx, func(s *Server, port string) error {
		s.args = append([]string{
			"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
			// Otherwise it would not rest while its clock is behind: pthread_cond_timedwait uses the machine's clock.
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

// StepClock steps the clock of a server that StartClocked has started by d, forwards or backwards. It returns how far that is now
// ahead of this machine's.
func (s *Server) StepClock(d time.Duration) (ahead time.Duration) { return s.clock.step(d) }
