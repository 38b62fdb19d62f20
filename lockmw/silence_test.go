package lockmw_test

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

// A call whose time is over before go-redis gives up dialling says what is wrong all the same.
func TestTheReasonOfASilenceIsTold(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	_ = listener.Close()

	withTLS, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = withTLS.Close() }()
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
		addr string
		want []string
	}{
		"a port where nobody listens": {nobody, []string{"connection refused"}},
		"a port with TLS":             {withTLS.Addr().String(), []string{"TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{Addr: tt.addr, MinRetryBackoff: time.Second, MaxRetryBackoff: time.Second})
			defer func() { _ = rdb.Close() }()
			locks, err := lockmw.New(rdb)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = locks.Close() }()
			start := time.Now()
			_, _, err = locks.Lock(t.Context(), "user:42", lockmw.WithWait(300*time.Millisecond))
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
			if !errors.Is(err, lockmw.ErrUnavailable) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}
