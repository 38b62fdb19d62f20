package inspect_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/inspect"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// A scan pauses after each answer for three times its duration. It does not pause after an error.
func TestAScanReportsAnErrorImmediately(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		dials := func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(3 * time.Second)
			return nil, syscall.ECONNREFUSED
		}
		i, err := inspect.New(s.NewClient(t, func(o *redis.Options) { o.MaxRetries, o.DialerRetries, o.Dialer = -1, 1, dials }), inspect.Config{Prefix: "lockmw"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := i.KeptNames(t.Context(), inspect.Scan{Share: 0.25}); err == nil || time.Since(began) > 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
