// Package dbserver runs database servers for tests, in temporary folders and on free ports. It imports no driver: the caller says
// when a server answers.
package dbserver

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/test/freeport"
)

// A Server is a server that runs until the test ends.
type Server struct {
	addr    string
	command func(port string) *exec.Cmd
	answers func(ctx context.Context, addr string) error
	process *process.Process
}

// Require skips the test if a program is not installed, or fails it if LOCKMW_REQUIRE_DATABASES is 1.
func Require(t testing.TB, program string, folders ...string) (path string) {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, program))
		if err == nil && len(found) > 0 {
			slices.Sort(found)
			return found[len(found)-1]
		}
	}
	if os.Getenv("LOCKMW_REQUIRE_DATABASES") == "1" {
		t.Fatalf("%s is required, and not installed", program)
	}
	t.Skipf("%s is not installed", program)
	return ""
}

// Folder returns a folder for a server's data. Unlike t.TempDir, other users may access it.
func Folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lockmw-db-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Run runs a program until it ends.
func Run(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// Start runs a server until the test ends, and returns when it answers. It retries, because another process may take the free port
// first.
func Start(t testing.TB, command func(port string) *exec.Cmd, answers func(ctx context.Context, addr string) error) *Server {
	t.Helper()
	const tries = 5
	var err error
	for range tries {
		var addr string
		if addr, err = freeport.Addr(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := &Server{addr: addr, command: command, answers: answers}
		if err = s.run(t.Context()); err == nil {
			t.Cleanup(func() { s.process.Kill() })
			return s
		}
	}
	t.Fatal(err)
	return nil
}

// Addr returns the host and port on which s listens.
func (s *Server) Addr() string { return s.addr }

// Stop shuts the server down and waits for its end. Its connections break.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	p, err := os.FindProcess(s.process.PID())
	if err == nil {
		err = p.Signal(os.Interrupt)
	}
	if err != nil {
		t.Fatal(err)
	}
	<-s.process.Ended()
}

// Restart starts the server again after Stop, with its data and on the same port, and returns when it answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) run(ctx context.Context) error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	if s.process, err = process.Start(s.command(port)); err != nil {
		return err
	}
	if err := s.awaitAnswer(ctx); err != nil {
		s.process.Kill()
		return err
	}
	return nil
}

func (s *Server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.answers(ctx, s.addr)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.process.Ended():
			return fmt.Errorf("the server ended immediately: %s", s.process.Output())
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w: %s", err, s.process.Output())
		}
	}
}
