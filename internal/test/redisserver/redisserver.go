// Package redisserver runs a redis-server as a process, on a free port of this machine. Its only configuration is its
// arguments. It is not persistent unless they say otherwise.
//
//	s, err := redisserver.Start(ctx)
//	…
//	defer s.Close()
//	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
//
// LOCKMW_REDIS_SERVER in the environment names another program to run, such as valkey-server. On Linux the server ends with the
// program that started it, however that ends.
package redisserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/test/freeport"
)

// Variable is the environment variable that names the server's program; the default is redis-server.
const Variable = "LOCKMW_REDIS_SERVER"

// Program returns the name of the server's program. It reads the environment only when a test runs: otherwise the go command
// would not notice a change, and would show cached results of another server.
func Program() string { return cmp.Or(os.Getenv(Variable), "redis-server") }

// ErrNotInstalled means that the server's program is not on the PATH.
var ErrNotInstalled = errors.New("not installed")

// patience is how long a server may take to answer.
const patience = time.Minute

// A Server is a redis-server. Its methods are not safe for concurrent use.
type Server struct {
	path string
	dir  string
	addr string
	bus  string // the port for the other nodes of a Cluster; "": it is not a node
	args []string
	proc *process.Process

	env   []string // in addition to this program's own
	clock *clock   // nil: the machine's clock
}

// Start starts a server, and returns when it answers. args are added to its command line, e.g. "--maxmemory", "3mb".
func Start(ctx context.Context, args ...string) (*Server, error) {
	return launch(ctx, func(s *Server, port string) error {
		s.args = append([]string{
			"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		}, args...)
		return nil
	})
}

// StartNode is Start for a node of a Cluster. It also has a port for its bus: before Redis 7.0, 10,000 above its own port;
// otherwise a free port.
func StartNode(ctx context.Context, args ...string) (*Server, error) {
	return launch(ctx, func(s *Server, port string) error {
		s.args = []string{
			"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no", "--cluster-enabled", "yes",
		}
		if major() < 7 {
			number, err := strconv.Atoi(port)
			s.bus = strconv.Itoa(number + 10_000)
			s.args = append(s.args, args...)
			return err
		}
		bus, err := freeport.Addr(ctx)
		if err != nil {
			return err
		}
		if _, s.bus, err = net.SplitHostPort(bus); err != nil {
			return err
		}
		s.args = slices.Concat(s.args, []string{"--cluster-port", s.bus}, args)
		return nil
	})
}

// major returns the first number of the version of the server's program.
var major = sync.OnceValue(func() int {
	out, _ := exec.CommandContext(context.Background(), Program(), "--version").Output() // without it the server does not start either
	_, version, _ := strings.Cut(string(out), " v=")
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
})

// StartSentinel is Start for a Sentinel, which keeps its state in a file. lines are the first lines of that file.
func StartSentinel(ctx context.Context, lines ...string) (*Server, error) {
	return launch(ctx, func(s *Server, port string) error {
		path := filepath.Join(s.dir, "sentinel.conf")
		text := append([]string{"port " + port, "bind 127.0.0.1", "dir " + s.dir}, lines...)
		s.args = []string{path, "--sentinel"}
		return os.WriteFile(path, []byte(strings.Join(text, "\n")+"\n"), 0o600)
	})
}

// launch starts a server with the arguments from prepare.
func launch(ctx context.Context, prepare func(s *Server, port string) error) (*Server, error) {
	path, err := exec.LookPath(Program())
	if err != nil {
		return nil, fmt.Errorf("%w: there is no %s on the PATH", ErrNotInstalled, Program())
	}
	dir, err := os.MkdirTemp("", "lockmw-redis")
	if err != nil {
		return nil, err
	}
	s := &Server{path: path, dir: dir}
	const tries = 5 // another program may take the free port first
	for range tries {
		err = s.listenAnywhere(ctx, prepare)
		if err == nil {
			return s, nil
		}
		if errors.Is(err, ErrNoClock) {
			break
		}
	}
	s.Close()
	return nil, fmt.Errorf("starting %s: %w", Program(), err)
}

func (s *Server) listenAnywhere(ctx context.Context, prepare func(s *Server, port string) error) error {
	var err error
	if s.addr, err = freeport.Addr(ctx); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	if err := prepare(s, port); err != nil {
		return err
	}
	return s.start(ctx)
}

// start runs the server and returns when it answers. The server outlives ctx.
func (s *Server) start(ctx context.Context) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.path, s.args...)
	if s.env != nil {
		cmd.Env = append(os.Environ(), s.env...)
	}
	proc, err := process.Start(cmd)
	if err != nil {
		return err
	}
	s.proc = proc
	if err := s.awaitAnswer(ctx); err != nil {
		s.Kill()
		return fmt.Errorf("%w: %s", err, proc.Output())
	}
	return nil
}

// Restart starts a killed server again, at the same address and with the data on its disk. args are added to its command line
// from now on.
func (s *Server) Restart(ctx context.Context, args ...string) error {
	s.args = append(s.args, args...)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.start(ctx)
		if err == nil {
			return nil
		}
		select { // a connection of another program may have been given the port
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("starting %s again: %w", Program(), err)
		}
	}
}

// awaitAnswer waits until the server has loaded its data and answers. The answer must come from this process: another program
// may have taken the port.
func (s *Server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	self := fmt.Sprintf("process_id:%d\r\n", s.proc.PID())
	for {
		answer, err := send(ctx, s.addr, "PING\r\nINFO server\r\n")
		switch {
		case strings.HasPrefix(answer, "+PONG") && strings.Contains(answer, self),
			strings.HasPrefix(answer, "-NO"): // it requires a password
			return nil
		}
		select {
		case <-tick.C:
		case <-s.proc.Ended():
			return errors.New("it ended immediately")
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// send returns the beginning of a server's answer to a command.
func send(ctx context.Context, addr, command string) (string, error) {
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

// Addr returns the host and port on which s listens.
func (s *Server) Addr() string { return s.addr }

// BusPort returns the port of s, a node of a Cluster, for the other nodes.
func (s *Server) BusPort() string { return s.bus }

// Pause stops the server's process, and returns when it has stopped; Resume continues it.
func (s *Server) Pause(ctx context.Context) error { return s.proc.Pause(ctx) }

// Resume ends Pause.
func (s *Server) Resume() error { return s.proc.Resume() }

// Kill ends the server immediately: it saves nothing. It may have ended before.
func (s *Server) Kill() {
	if s.proc != nil {
		s.proc.Kill()
	}
}

// Close kills the server, and removes its files.
func (s *Server) Close() {
	s.Kill()
	if s.clock != nil {
		s.clock.close()
		s.clock = nil
	}
	_ = os.RemoveAll(s.dir) // in the directory for temporary files
}
