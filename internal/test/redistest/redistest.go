// Package redistest starts servers for tests and disturbs their connections. A server is an embedded miniredis whose keys
// expire as time passes, or a real redis-server.
//
//	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
//		rdb := s.NewClient(t)
//		…
//	})
//
// NewCluster and NewSentinel start several real servers that watch each other.
//
// Without a redis-server in the PATH the tests that need one are skipped, or fail if the environment
// has LOCKMW_REQUIRE_REDIS=1. With LOCKMW_REDIS_ADDR, Each and the conformance suite use a server that is already running.
package redistest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/freeport"
	"github.com/lockmw/go/internal/test/redisserver"
)

// A Server is a Redis server that belongs to one test.
type Server struct {
	// Mini is the embedded server; nil for a real one, also an external one.
	Mini *miniredis.Miniredis

	real *redisserver.Server // nil for an embedded or external one
	addr string
	door *Proxy      // at addr, if all connections pass through one; otherwise nil
	pipe bool        // there is no listener: connections are pipes
	away atomic.Bool // it was killed, paused or cut off

	dialling sync.RWMutex // held while a pipe is made: a client may still dial after its test has ended
	closed   bool
}

// Mini starts an embedded server that listens on a port. Its keys expire by the clock.
func Mini(t testing.TB) *Server {
	t.Helper()
	m := miniredis.NewMiniRedis()
	start(t, m)
	t.Cleanup(m.Close)
	m.ClockTTL(true)
	return &Server{Mini: m, addr: m.Addr()}
}

// start starts an embedded server on a port that nobody else gets while the server is closed.
func start(t testing.TB, m *miniredis.Miniredis) {
	t.Helper()
	const tries = 10 // another program may take the port first
	var err error
	for range tries {
		var addr string
		if addr, err = freeport.Addr(t.Context()); err != nil {
			break
		}
		if err = m.StartAddr(addr); err == nil {
			return
		}
	}
	t.Fatalf("starting miniredis: %v", err)
}

// Piped starts an embedded server without a port: for testing/synctest, whose clock it follows.
func Piped(t testing.TB) *Server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	s := &Server{Mini: m, addr: "127.0.0.1:0", pipe: true}
	t.Cleanup(func() {
		s.dialling.Lock()
		s.closed = true
		s.dialling.Unlock()
		m.Close()
	})
	return s
}

// Each runs test on an embedded server and on a real one, which is Lent or External.
func Each(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Run("miniredis", func(t *testing.T) { test(t, Mini(t)) })
	t.Run("redis", func(t *testing.T) { test(t, Real(t)) })
}

// Real returns the real server of Each.
func Real(t testing.TB) *Server {
	t.Helper()
	if s := External(t); s != nil {
		return s
	}
	return Lent(t)
}

// Addr returns the host and port on which s listens. A piped server has an unused address. It is not a name, because go-redis
// looks names up, which a bubble does not allow.
func (s *Server) Addr() string { return s.addr }

// NewClient returns a client of s, closed when the test ends. Each edit may change its options.
func (s *Server) NewClient(t testing.TB, edit ...func(*redis.Options)) *redis.Client {
	opts := &redis.Options{Addr: s.addr}
	if s.pipe {
		opts.Dialer = s.dialer
		// A client that runs out of connections waits with a timer that all clients of the program share, which a synctest
		// bubble does not allow. A bridge has a command in flight for each of 2,000 holds that expire together.
		opts.PoolSize = 4000
		// A closed client also dials for a while longer than a bubble lasts.
		opts.DialerRetries = 1
	}
	for _, f := range edit {
		f(opts)
	}
	c := redis.NewClient(opts)
	t.Cleanup(func() { _ = c.Close() }) // some tests have closed it
	return c
}

func (s *Server) dialer(ctx context.Context, _, _ string) (net.Conn, error) {
	return s.dial(ctx, s.addr)
}

// dial connects to s, whatever the address.
func (s *Server) dial(ctx context.Context, _ string) (net.Conn, error) {
	if s.pipe {
		return s.dialPipe()
	}
	return dialAddr(ctx, s.addr)
}

func dialAddr(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	return d.DialContext(ctx, "tcp", addr)
}

func (s *Server) dialPipe() (net.Conn, error) {
	s.dialling.RLock()
	defer s.dialling.RUnlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	conn, err := s.Mini.Dial()
	if err != nil {
		return nil, err
	}
	return newPipe(conn), nil
}

// embedded returns what serves the commands of an embedded server.
func (s *Server) embedded(t testing.TB) *server.Server {
	t.Helper()
	if s.pipe { // it begins with its first connection
		conn, err := s.dialPipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	return s.Mini.Server()
}
