package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Redis starts a redis-server of the test's own on a free port, without persistence, stopped when the
// test ends. args are added to its command line, e.g. "--maxmemory", "3mb".
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	switch {
	case err != nil && os.Getenv("LOCKMW_REQUIRE_REDIS") == "1":
		t.Fatalf("a real Redis is required: %v", err)
	case err != nil:
		t.Skipf("no real Redis here: %v", err)
	}
	s, dir := &Server{path: path}, t.TempDir()
	t.Cleanup(s.Kill) // before the directory is removed
	const tries = 5   // somebody else may take the free port first
	for range tries {
		if s.addr, err = freeAddr(t); err != nil {
			break
		}
		_, port, _ := net.SplitHostPort(s.addr)
		s.args = append([]string{
			"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
		}, args...)
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatalf("starting redis-server: %v", err)
	return nil
}

func freeAddr(t testing.TB) (string, error) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// start runs the server and returns when it answers.
func (s *Server) start() (err error) {
	if s.proc, err = start(exec.CommandContext(context.Background(), s.path, s.args...)); err != nil {
		return err
	}
	return s.answers()
}

// Pause stops a real server's process in its tracks; Resume lets it go on.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.proc.Pause(t)
}

// Resume ends Pause.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.proc.Resume(t)
}

// Kill ends a real server without a chance to save anything.
func (s *Server) Kill() {
	if s.proc != nil {
		s.proc.Kill()
	}
}

// Restart starts a server again that was killed: at the same address, on what it left on its disk, with
// args added to its command line from now on.
func (s *Server) Restart(t testing.TB, args ...string) {
	t.Helper()
	s.args = append(s.args, args...)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.start()
		if err == nil {
			return
		}
		select { // a connection of somebody else's may have been given the port
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("starting redis-server again: %v", err)
		}
	}
}

// answers waits until the server has its data and answers, and makes sure that it is this one:
// somebody else's may have been faster on the port.
func (s *Server) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := ask(ctx, s.addr, "PING\r\nINFO server\r\n")
		switch {
		case strings.HasPrefix(answer, "+PONG") && strings.Contains(answer, fmt.Sprintf("process_id:%d\r\n", s.proc.cmd.Process.Pid)),
			strings.HasPrefix(answer, "-NO"): // it wants a password
			return nil
		}
		select {
		case <-tick.C:
		case <-s.proc.Ended():
			return fmt.Errorf("it ended at once: %s", s.proc.Output())
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("no answer (%w): %s", err, s.proc.Output())
		}
	}
}

// ask returns the beginning of a server's answer.
func ask(ctx context.Context, addr, command string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write([]byte(command)); err != nil {
		return "", err
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	return string(buf[:n]), err
}
