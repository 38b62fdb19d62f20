package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
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
	const tries = 5 // somebody else may take the free port first
	for range tries {
		var s *Server
		if s, err = startRedis(t, path, args); err == nil {
			return s
		}
	}
	t.Fatalf("starting redis-server: %v", err)
	return nil
}

func startRedis(t testing.TB, path string, args []string) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	if err := listener.Close(); err != nil {
		return nil, err
	}
	args = append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "", "--appendonly", "no",
	}, args...)
	p, err := startProcess(path, args)
	if err != nil {
		return nil, err
	}
	t.Cleanup(p.kill)
	return &Server{addr: addr, proc: p}, p.answers(addr)
}

// Pause stops the server's process in its tracks; Resume lets it go on.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

// Kill ends a real server without a chance to save anything.
func (s *Server) Kill() { s.proc.kill() }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.proc.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("sending %v to redis-server: %v", sig, err)
	}
}

// A process is a running redis-server.
type process struct {
	cmd    *exec.Cmd
	output output
	ended  chan struct{}
}

func startProcess(path string, args []string) (*process, error) {
	p := &process{ended: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), path, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	endWithParent(p.cmd)
	started := make(chan error)
	go func() {
		defer close(p.ended)
		// The server ends with the thread that started it (endWithParent): this one is kept.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // it was killed
		}
	}()
	return p, <-started
}

// kill ends the process and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended
	<-p.ended
}

// answers waits until the server does, and makes sure that it is this one: somebody else's may have
// been faster on the port.
func (p *process) answers(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := ask(ctx, addr, "INFO server\r\n")
		switch {
		case strings.Contains(answer, fmt.Sprintf("process_id:%d\r\n", p.cmd.Process.Pid)),
			strings.HasPrefix(answer, "-NO"): // it wants a password
			return nil
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return fmt.Errorf("it ended at once: %s", p.output.String())
		case <-ctx.Done():
			p.kill()
			return fmt.Errorf("no answer (%w): %s", err, p.output.String())
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

// output collects what the server prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
