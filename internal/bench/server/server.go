// Package server runs a redis-server for the benchmark, reads its statistics, and can put a slow wire
// in front of it.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Server is a Redis server and a connection to it that only this package uses.
type Server struct {
	Addr    string
	Version string

	rdb *redis.Client
	own *process // nil if it was running already
}

// Use returns the server that runs at addr.
func Use(ctx context.Context, addr string) (*Server, error) {
	s := &Server{Addr: addr, rdb: redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1, MaxRetries: -1,
	})}
	info, err := s.info(ctx, "server")
	if err != nil {
		_ = s.rdb.Close()
		return nil, fmt.Errorf("no Redis at %s: %w", addr, err)
	}
	s.Version = info["redis_version"]
	return s, nil
}

// Start starts a redis-server on a free port of this machine, without persistence.
func Start(ctx context.Context) (*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("there is no redis-server on the PATH: install one, or name a running one with -redis host:port")
	}
	const tries = 5 // somebody else may take the free port first
	for range tries {
		var s *Server
		if s, err = start(ctx, path); err == nil || ctx.Err() != nil {
			return s, err
		}
	}
	return nil, fmt.Errorf("starting redis-server: %w", err)
}

func start(ctx context.Context, path string) (*Server, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockmw-bench-redis")
	if err != nil {
		return nil, err
	}
	p, err := startProcess(path, dir, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "no")
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	s, err := p.await(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(p.output.Bytes()))
	}
	s.own = p
	return s, nil
}

func freePort(ctx context.Context) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Close stops the server if Start started it.
func (s *Server) Close() error {
	err := s.rdb.Close()
	if s.own != nil {
		s.own.kill()
	}
	return err
}

// Clean empties the server if it is the benchmark's own; on others, keys are unique to each
// measurement and end by themselves.
func (s *Server) Clean(ctx context.Context) error {
	if s.own == nil {
		return nil
	}
	return s.rdb.FlushAll(ctx).Err()
}

// A process is a redis-server that was started here.
type process struct {
	cmd    *exec.Cmd
	dir    string
	output bytes.Buffer // to be read after ended
	ended  chan struct{}
}

func startProcess(path, dir string, args ...string) (*process, error) {
	p := &process{dir: dir, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(context.Background(), path, args...) //nolint:gosec // found on the PATH
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

// kill ends the process, waits for its end, and removes its directory.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended
	<-p.ended
	_ = os.RemoveAll(p.dir)
}

// await waits until the server answers, and makes sure that it is this one: somebody else's may have
// been faster on the port.
func (p *process) await(ctx context.Context, addr string) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := Use(ctx, addr)
		if err == nil {
			var info map[string]string
			info, err = s.info(ctx, "server")
			if err == nil && info["process_id"] == strconv.Itoa(p.cmd.Process.Pid) {
				return s, nil
			}
			_ = s.Close()
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return nil, errors.New("it ended at once")
		case <-ctx.Done():
			return nil, fmt.Errorf("no answer: %w", errors.Join(ctx.Err(), err))
		}
	}
}
