// Package memcached runs a Memcached server.
package memcached

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"os/user"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/lockmw/go/internal/process"
	"github.com/lockmw/go/internal/test/freeport"
)

// ErrNotInstalled means that the PATH has no memcached.
var ErrNotInstalled = errors.New("memcached is not installed")

// A Server is a small Memcached on a free port.
type Server struct {
	path, addr string
	proc       *process.Process
}

// Start starts a server, which is killed when this program ends.
func Start(ctx context.Context) (*Server, error) {
	path, err := exec.LookPath("memcached")
	if err != nil {
		return nil, ErrNotInstalled
	}
	s := &Server{path: path}
	const tries = 5 // another process may take the free port first
	for range tries {
		if s.addr, err = freeport.Addr(ctx); err != nil {
			return nil, err
		}
		if err = s.start(ctx); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("starting memcached: %w", err)
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.addr }

// Restart kills the server and starts it again at the same address.
func (s *Server) Restart(ctx context.Context) error {
	s.Close()
	return s.start(ctx)
}

// Close kills the server.
func (s *Server) Close() { s.proc.Kill() }

// Fill stores enough entries, of the same size as key and value, to evict all earlier entries.
func (s *Server) Fill(ctx context.Context, key, value string) (err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	const entries = 60_000 // about three times the capacity
	w := bufio.NewWriter(conn)
	for n := range entries {
		// Waiting for each reply would take seconds.
		_, _ = fmt.Fprintf(w, "set %0*d 0 0 %d noreply\r\n%s\r\n", len(key), n, len(value), value) // Flush has the error
	}
	_, _ = w.WriteString("version\r\n")
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = bufio.NewReader(conn).ReadString('\n') // the answer comes after all entries
	return err
}

func (s *Server) start(ctx context.Context) error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	args := []string{"-l", "127.0.0.1", "-p", port, "-U", "0", "-m", "2", "-t", "1"}
	if me, err := user.Current(); err == nil && me.Uid == "0" {
		args = append(args, "-u", me.Username) // memcached refuses to run as root otherwise
	}
	//nolint:gosec // found on the PATH
	s.proc, err = process.Start(exec.CommandContext(context.WithoutCancel(ctx), s.path, args...))
	if err != nil {
		return err
	}
	if err := s.awaitAnswer(ctx); err != nil {
		s.Close()
		return fmt.Errorf("%w: %s", err, s.proc.Output())
	}
	return nil
}

func (s *Server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := memcache.New(s.addr)
	defer client.Close()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for client.Ping() != nil {
		select {
		case <-tick.C:
		case <-s.proc.Ended():
			return errors.New("memcached ended immediately")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
