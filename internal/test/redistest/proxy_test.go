package redistest_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
)

// proxied returns a proxy in front of a real server, and a client that repeats no commands.
func proxied(t *testing.T) (*redistest.Proxy, *redis.Client) {
	t.Helper()
	s := redistest.Redis(t)
	p := s.NewProxy(t)
	rdb := s.NewClient(t, s.NewWire().Use, p.Use, func(o *redis.Options) {
		o.MaxRetries, o.ContextTimeoutEnabled, o.ReadTimeout = -1, true, time.Minute
	})
	if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	return p, rdb
}

func took(t *testing.T, rdb *redis.Client) time.Duration {
	t.Helper()
	start := time.Now()
	if got, err := rdb.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("GET is %q, %v", got, err)
	}
	return time.Since(start)
}

// unanswered checks that a command gets neither an answer nor an error for a while.
func unanswered(t *testing.T, rdb *redis.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := rdb.Get(ctx, "k").Err(); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Errorf("GET over a half-open connection: %v", err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}

func TestProxyDelaysAnswers(t *testing.T) {
	p, rdb := proxied(t)
	const latency, jitter = 60 * time.Millisecond, 20 * time.Millisecond
	p.Delay(latency, jitter)
	var wg sync.WaitGroup
	for range 3 { // on the existing connection, and on new ones
		wg.Go(func() {
			if d := took(t, rdb); d < latency-jitter {
				t.Errorf("an answer arrived after %v", d)
			}
		})
	}
	wg.Wait()
	p.Restore()
	took(t, rdb)
}

func TestProxyDeliversSlicedBytes(t *testing.T) {
	p, rdb := proxied(t)
	p.Slice()
	long := strings.Repeat("0123456789", 1000)
	if err := rdb.Set(t.Context(), "long", long, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := rdb.Get(t.Context(), "long").Val(); got != long {
		t.Errorf("%d of %d bytes are correct", strings.Count(got, ""), len(long))
	}
}

func TestProxyThrottles(t *testing.T) {
	p, rdb := proxied(t)
	p.Throttle(100)
	start := time.Now()
	if err := rdb.Set(t.Context(), "long", make([]byte, 20<<10), 0).Err(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d < 100*time.Millisecond {
		t.Errorf("20 KiB at 100 KB/s took %v", d)
	}
}

func TestProxySwallowsUntilRestored(t *testing.T) {
	p, rdb := proxied(t)
	p.Swallow()
	for range 2 { // on the old connection, and on a new one
		unanswered(t, rdb)
	}
	p.Restore()
	took(t, rdb)
}

func TestProxySwallowsOneConnection(t *testing.T) {
	p, rdb := proxied(t)
	conn := rdb.Conn()
	defer conn.Close()
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	caught := p.SwallowOne("\r\nthese words")
	select {
	case <-caught:
		t.Error("caught before the words were sent")
	default:
	}
	answer := make(chan error, 1)
	go func() { answer <- conn.Echo(t.Context(), "these words").Err() }()
	<-caught
	took(t, rdb) // on another connection
	if got, err := rdb.Echo(t.Context(), "these words").Result(); err != nil {
		t.Errorf("another connection is also half-open: %q, %v", got, err)
	}
	p.Restore()
	if err := <-answer; err == nil {
		t.Error("an answer arrived on the half-open connection")
	}
}

func TestProxyResets(t *testing.T) {
	p, rdb := proxied(t)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := make([]byte, 100)
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(answer); err != nil || string(answer[:n]) != "+PONG\r\n" {
		t.Errorf("PING is answered %q, %v", answer[:n], err)
	}
	p.Reset()
	if n, err := conn.Read(answer); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reading from a connection that was reset: %q, %v", answer[:n], err)
	}
	took(t, rdb)
}

func TestProxyIsOffUntilRestored(t *testing.T) {
	p, rdb := proxied(t)
	p.Off()
	for range 2 {
		if err := rdb.Ping(t.Context()).Err(); err == nil {
			t.Error("an answer arrived")
		}
	}
	p.Restore()
	took(t, rdb)
}
