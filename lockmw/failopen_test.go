package lockmw_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestCallsThatFailOpenDoNotFillTheLog(t *testing.T) {
	for name, opts := range map[string][]lockmw.ClientOption{
		"plain":    {lockmw.WithFailOpen()},
		"observed": {lockmw.WithFailOpen(), lockmw.WithObserver(&lockmw.Observer{})}, // by one that does not log
	} {
		t.Run(name, func(t *testing.T) {
			var log usertest.Output
			server := redistest.Mini(t)
			c := usertest.Client(t, server, append(opts, lockmw.WithLogger(log.Logger()))...)
			server.Mini.SetError("MISCONF Redis is configured to save RDB snapshots")
			for range 3 {
				_, hold := usertest.Lock(t, t.Context(), c, "item:7", lockmw.WithWait(0))
				usertest.Unlock(t, hold)
			}
			server.Mini.SetError("")
			if n := strings.Count(log.String(), "continuing without a lock"); n != 1 {
				t.Errorf("3 calls have %d lines, want one: %s", n, log.String())
			}
		})
	}
}

// An opening is where a call fails open or does not: a bubble, or outside of one, which go-redis needs to wait for a connection
// of its pool.
type opening struct {
	*testing.T
	server *redistest.Server
	wire   *redistest.Wire
	rdb    *redis.Client
	broken atomic.Pointer[error] // what commands are answered with, once there is one
	locks  *lockmw.Client
	wait   time.Duration // negative: as long as its context, which has a second
}

type outside func(o *opening)

// block keeps all connections of the pool in use, and more callers wait for one.
func (o *opening) block() {
	ctx, cancel := context.WithCancel(o.Context())
	done := make(chan struct{})
	n := 2 * o.rdb.Options().PoolSize
	for range n {
		go func() {
			_ = o.rdb.BLPop(ctx, time.Hour, "nothing")
			done <- struct{}{}
		}()
	}
	for o.rdb.PoolStats().IdleConns > 0 || int(o.rdb.PoolStats().TotalConns) < o.rdb.Options().PoolSize {
		time.Sleep(time.Millisecond) // polling
	}
	o.Cleanup(func() {
		cancel()
		o.server.Mini.Close() // miniredis serves no BLPOP for an hour then
		_ = o.rdb.Close()
		for range n {
			<-done
		}
	})
}

type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (serverError) RedisError() {}

// openings are the rows of the table in docs/reference.md, and what makes a call meet each.
var openings = map[string][]any{
	"the connection is refused, reset, or not answered": {
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, os.ErrDeadlineExceeded,
		func(o *opening) { o.wire.Cut() }, func(o *opening) { o.wire.Silence() },
		// however short the wait is
		func(o *opening) { o.wait = 50 * time.Millisecond; o.wire.Silence() }, func(o *opening) { o.wait = time.Millisecond; o.wire.Silence() },
	},
	"the name of the host is not resolved": {&net.DNSError{Err: "no such host", Name: "redis", IsNotFound: true}},
	"no answer, and all connections of the pool are in use because of that": {
		outside(func(o *opening) { o.block(); o.wire.Silence() }),
		outside(func(o *opening) { o.wait = time.Minute; o.block(); o.wire.Silence() }),
	},
	"`LOADING`, `MASTERDOWN`, `CLUSTERDOWN`, `READONLY`, `NOREPLICAS`, `BUSY`, `max number of clients`": {
		serverError("LOADING Redis is loading the dataset in memory"), serverError("MASTERDOWN Link with MASTER is down"),
		serverError("CLUSTERDOWN The cluster is down"), serverError("READONLY You can't write against a read only replica."),
		serverError("NOREPLICAS Not enough good replicas to write."), serverError("BUSY Redis is busy running a script."),
		serverError("ERR max number of clients reached"),
	},
	"`OOM`, `MISCONF`: Redis refuses to write": {
		serverError("OOM command not allowed when used memory > 'maxmemory'."), serverError("MISCONF Redis is configured to save RDB snapshots"),
	},
	"a server in quarantine (`WithQuarantine`)": {func(o *opening) { o.server.NewMemory(o.T); o.newLocks(lockmw.WithQuarantine(time.Minute)) }},
	"a slot that moves":                         {serverError("TRYAGAIN Multiple keys request during rehashing of slot"), serverError("ASK 8000 127.0.0.1:7001")},
	"the pool of connections is exhausted, and Redis answers a new connection": {
		redis.ErrPoolTimeout, redis.ErrPoolExhausted,
		outside(func(o *opening) { o.block() }),
		outside(func(o *opening) { o.wait = 60 * time.Millisecond; o.block() }), // less than go-redis waits for a connection
		outside(func(o *opening) { o.wait = time.Second; o.block() }),
	},
	"the redis client is closed":         {redis.ErrClosed, func(o *opening) { _ = o.rdb.Close() }},
	"the Client is closed or shuts down": {func(o *opening) { _ = o.locks.Close() }, func(o *opening) { _ = o.locks.Shutdown(o.Context()) }},
	"`NOPERM`, `NOAUTH`, `WRONGPASS`, `DENIED`": {
		serverError("NOPERM this user has no permissions"), serverError("NOAUTH Authentication required."),
		serverError("WRONGPASS invalid username-password pair"), serverError("DENIED Redis is running in protected mode"),
		serverError("ERR Protocol error: unauthenticated multibulk length"),
	},
	"TLS on one side only: the server closes the connection, or stays silent": {io.EOF, func(o *opening) { o.wire.Silence() }},
	"a certificate that one side refuses, or an answer that is not TLS": {
		&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
		tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")},
	},
	"a database or a script command that the server does not have, a node of a Cluster without a Cluster client": {
		serverError("ERR DB index is out of range"), serverError("ERR unknown command 'evalsha'"), serverError("CROSSSLOT Keys in request don't hash to the same slot"),
	},
	"another kind of value at the key": {func(o *opening) { _ = o.server.Mini.Set("lockmw:{item:7}", "a stranger's") }},
	"options that contradict each other, or the options of another client (`WithQuarantine`)": {func(o *opening) {
		o.newLocks(lockmw.WithQuarantine(10*time.Second), lockmw.WithLease(5*time.Second))
		_, hold, err := o.locks.Lock(o.Context(), "item:7", lockmw.WithFailOpen(), lockmw.WithLease(time.Minute))
		if hold != nil || !errors.Is(err, lockmw.ErrInvalidOption) {
			o.Errorf("a lease that is longer than the quarantine: %v, %v", hold, err)
		}
		_ = o.locks.Close()
	}},
	"the caller's context ends first": {func(o *opening) { o.wire.Silence(); o.wait = -1 }},
}

func (o *opening) newLocks(opts ...lockmw.ClientOption) {
	o.Helper()
	var err error
	if o.locks, err = lockmw.New(o.rdb, append(opts, lockmw.WithLogger(slog.New(slog.DiscardHandler)))...); err != nil {
		o.Fatal(err)
	}
	locks := o.locks
	o.Cleanup(func() { _ = locks.Close() })
}

// The table of docs/reference.md says what fails open.
func TestWhatFailsOpen(t *testing.T) {
	page, err := os.ReadFile("../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| what the call meets | runs without the lock |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := make(map[string]bool)
	for row := range strings.Lines(table) {
		what, says, _ := strings.Cut(strings.Trim(strings.TrimSpace(row), "| "), " | ")
		rows[what] = strings.HasPrefix(says, "yes") || strings.Contains(says, "opens if")
		if openings[what] == nil {
			t.Errorf("no test shows this row: %s", what)
		}
	}
	for what, ways := range openings {
		opens, ok := rows[what]
		if !ok {
			t.Errorf("the table does not have this row: %s", what)
		}
		for i, way := range ways {
			name := fmt.Sprintf("%s %d", what, i)
			if err, ok := way.(error); ok {
				name = what + " " + err.Error()
			}
			t.Run(name, func(t *testing.T) { testOpening(t, way, opens) })
		}
	}
}

// testOpening has a call meet something after another lock was taken and released.
func testOpening(t *testing.T, way any, opens bool) {
	if meet, ok := way.(outside); ok {
		t.Parallel()
		newOpening(t, redistest.Mini(t)).run(func(o *opening) { meet(o) }, opens)
		return
	}
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		o := newOpening(t, redistest.Piped(t))
		meet, ok := way.(func(o *opening))
		if err, isError := way.(error); isError {
			meet, ok = func(o *opening) { o.broken.Store(&err) }, true
		}
		if !ok {
			t.Fatalf("no way to meet anything: %T", way)
		}
		o.run(meet, opens)
		o.broken.Store(nil)
		o.wire.Restore()
		_ = o.locks.Close()
		_ = o.rdb.Close()
		time.Sleep(2 * time.Second) // until go-redis' goroutines have ended
	})
}

func newOpening(t *testing.T, server *redistest.Server) *opening {
	o := &opening{T: t, server: server, wire: server.NewWire()}
	o.rdb = server.NewClient(t, o.wire.Use, func(opts *redis.Options) { opts.PoolSize, opts.PoolTimeout = 4, 200*time.Millisecond })
	o.rdb.AddHook(redistest.Hook(func(_ context.Context, _ []redis.Cmder, send func() error) error {
		if err := o.broken.Load(); err != nil {
			return *err
		}
		return send()
	}))
	o.newLocks()
	_, hold := usertest.Lock(t, t.Context(), o.locks, "other")
	usertest.Unlock(t, hold)
	return o
}

// run has a call meet something.
func (o *opening) run(meet func(o *opening), opens bool) {
	o.Helper()
	meet(o)
	ctx := o.Context()
	if o.wait < 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
		o.wait = time.Minute
	}
	_, hold, err := o.locks.Lock(ctx, "item:7", lockmw.WithFailOpen(), lockmw.WithWait(o.wait))
	switch {
	case (err == nil) != opens:
		o.Errorf("it failed open: %t; %v", err == nil, err)
	case err == nil && hold.Token() != 0:
		o.Error("it has the lock")
	}
	if strings.Contains(o.Name(), "exhausted") && (err == nil || !strings.Contains(err.Error(), "pool")) {
		o.Errorf("the error does not name the pool: %v", err)
	}
}
