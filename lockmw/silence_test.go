package lockmw_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A call whose time ends before go-redis gives up dialling still returns the cause.
func TestTheReasonOfASilenceIsTold(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1" // no test is given this port
	withTLS, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = withTLS.Close() })
	go func() {
		for {
			conn, err := withTLS.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
				_ = conn.Close()
			}()
		}
	}()

	for name, tt := range map[string]struct {
		addr          string
		backoff, wait time.Duration
		want          []string
	}{
		"a port without a listener":                    {nobody, time.Minute, 300 * time.Millisecond, []string{"connection refused"}},
		"a port with TLS":                              {withTLS.Addr().String(), time.Minute, 300 * time.Millisecond, []string{"not answered", "TLS"}},
		"a port with TLS, after go-redis has told why": {withTLS.Addr().String(), time.Millisecond, time.Second, []string{"EOF", "TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := redis.NewClient(&redis.Options{Addr: tt.addr, MinRetryBackoff: tt.backoff, MaxRetryBackoff: tt.backoff})
			defer func() { _ = rdb.Close() }()
			locks := usertest.Abandoned(t, rdb)
			for wait := tt.wait; ; wait *= 2 { // a machine that is busy needs more time to find out
				start := time.Now()
				_, _, err := locks.Lock(t.Context(), "user:42", lockmw.WithWait(wait))
				if took := time.Since(start); took > wait+10*time.Second {
					t.Errorf("took %v", took)
				}
				if !errors.Is(err, lockmw.ErrUnavailable) {
					t.Errorf("got %v, want ErrUnavailable", err)
				}
				missing := slices.DeleteFunc(slices.Clone(tt.want), func(want string) bool { return strings.Contains(err.Error(), want) })
				if len(missing) == 0 {
					return
				}
				if wait > 10*time.Second {
					t.Fatalf("%q does not say %q", err, missing)
				}
			}
		})
	}
}

// go-redis dials with TLS for 5 s, also for a call that has less time.
func TestADialerThatIsDeafToItsContextDelaysNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		rdb := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:6379", // which go-redis need not look up
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				<-answered
				return nil, errors.New("no handshake")
			},
		})
		locks := usertest.Abandoned(t, rdb)
		start := time.Now()
		time.AfterFunc(10*time.Second, func() { close(answered) })
		_, _, err := locks.Lock(t.Context(), "user:42", lockmw.WithWait(time.Second))
		if took := time.Since(start); took > 1100*time.Millisecond || !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("after %v: %v, want ErrUnavailable after 1s", took, err)
		}
		_ = locks.Close()
		_ = rdb.Close()
		time.Sleep(2 * time.Second) // go-redis looks once a second whether it was closed
	})
}

// Redis does not answer a long command with NOAUTH.
func TestAServerThatWantsAPasswordSaysSo(t *testing.T) {
	s := redistest.Redis(t, "--requirepass", "secret")
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	log := &usertest.Output{}
	locks := usertest.Abandoned(t, rdb, lockmw.WithLogger(log.Logger()))
	_, _, err := locks.Lock(t.Context(), "user:42")
	if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "requires a password") {
		t.Errorf("got %v", err)
	}
	_ = locks.Close()
	if strings.Contains(log.String(), "could not release") { // it was never taken
		t.Errorf("logged: %s", log)
	}
}

// To dial the master go-redis asks a Sentinel, with timeouts of its own.
func TestASilentSentinelKeepsNoCallBeyondItsWait(t *testing.T) {
	t.Parallel()
	sentinel, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sentinel.Close() }() // which ends the connections that nobody has accepted
	const timeout = 20 * time.Second
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "mymaster", SentinelAddrs: []string{sentinel.Addr().String()},
		ReadTimeout: timeout, MaxRetries: -1,
	})
	locks := usertest.Abandoned(t, rdb)
	start := time.Now()
	_, _, err = locks.Lock(t.Context(), "user:42", lockmw.WithWait(100*time.Millisecond))
	if took := time.Since(start); took > timeout/2 {
		t.Errorf("took %v", took)
	}
	if !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	_ = sentinel.Close()
	_ = rdb.Close()
	_ = locks.Close() // it cannot say so to the server
}

// unheard is a connection to a port with TLS, which ends it whatever it is told.
type unheard struct{ net.Conn }

func (unheard) Write(b []byte) (int, error) { return len(b), nil }

func (unheard) Read([]byte) (int, error) { return 0, io.EOF }

// A call without a limit waits for a server that it can never talk to. Only the log says why.
func TestTheLogOfAWaitForTheServerSaysWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &usertest.Output{}
		rdb := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:6379", // which go-redis need not look up
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				here, _ := net.Pipe()
				return unheard{here}, nil
			},
		})
		locks := usertest.Abandoned(t, rdb, lockmw.WithLogger(log.Logger()))
		_, _, err := locks.Lock(t.Context(), "user:42", lockmw.WithWait(5*time.Second))
		if !errors.Is(err, lockmw.ErrUnavailable) || strings.Count(log.String(), "calls wait for the lock server") != 1 ||
			!strings.Contains(log.String(), "require TLS") {
			t.Errorf("%v, logged: %s", err, log)
		}
		_ = locks.Close()
		_ = rdb.Close()
		time.Sleep(2 * time.Second) // go-redis looks once a second whether it was closed
	})
}
