package verify

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/wire"
)

// With a small share of the server's time, the measurement of hand-overs ends before it has measured five.
func TestASmallShareIsNoFinding(t *testing.T) {
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		connect := func(_ json.RawMessage, through func(Dial) *wire.Wire) (redis.UniversalClient, error) {
			w := through(func(context.Context, string) (net.Conn, error) { return s.Mini.Dial() })
			return s.NewClient(t, func(o *redis.Options) { o.Dialer = w.Dial }), nil
		}
		r := &run{
			o: Options{Client: s.NewClient(t), Connect: connect, Prefix: "p", Share: 1e-6}, ctx: t.Context(), keys: newKeys("p"),
			setup: setup{Prefix: "p", Lease: time.Second}, ledger: newLedger(newWatch(nil), newKeys("p"), 0),
		}
		if err := r.measure(t.Context()); err != nil || len(r.ledger.findings) > 0 {
			t.Errorf("the measurement ended with %v, and found %v", err, r.ledger.findings)
		}
	})
}
