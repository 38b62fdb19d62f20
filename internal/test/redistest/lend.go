package redistest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redisserver"
)

// A lender has real servers, each of which one test after another uses. To start a server takes longer than most tests of one
// script.
type lender struct {
	mu   sync.Mutex
	idle []*redisserver.Server
}

// lending is the lender of this program; nil if each test starts a server of its own.
var lending *lender

// Lend returns a function that runs the tests of a package. Their Each and Lent use a real server again when a test has ended.
func Lend(run func() int) func() int {
	return func() int {
		lending = new(lender)
		defer func() {
			for _, s := range lending.idle {
				s.Close()
			}
		}()
		return run()
	}
}

// Lent is Redis for a test that changes nothing but data, scripts and the limit of memory. In a package with Lend, another test
// may have used the server before.
func Lent(t testing.TB) *Server {
	t.Helper()
	if lending == nil {
		return Redis(t)
	}
	server := lending.take()
	if server == nil {
		server = newReal(t, redisserver.Start, nil)
	}
	t.Cleanup(func() { lending.giveBack(t, server) })
	return &Server{real: server, addr: server.Addr()}
}

// take returns an idle server, or nil.
func (l *lender) take() *redisserver.Server {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.idle) - 1
	if last < 0 {
		return nil
	}
	server := l.idle[last]
	l.idle = l.idle[:last]
	return server
}

// giveBack empties a server for the next test. One whose test has failed may be in any state, and is stopped.
func (l *lender) giveBack(t testing.TB, server *redisserver.Server) {
	t.Helper()
	if t.Failed() {
		server.Close()
		return
	}
	if err := reset(server.Addr()); err != nil {
		server.Close()
		t.Errorf("emptying a server: %v", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = append(l.idle, server)
}

// reset removes what tests with Lent may leave.
func reset(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	return errors.Join(
		rdb.ConfigSet(ctx, "maxmemory", "0").Err(), rdb.FlushAll(ctx).Err(), rdb.ScriptFlush(ctx).Err(), rdb.ConfigResetStat(ctx).Err(),
	)
}
