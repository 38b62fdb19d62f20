package transport_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/transport"
)

func TestAServerThatMayLoseOrDoubleLocksIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	for says, want := range map[string]string{
		"role:master maxmemory_policy:noeviction":      "",
		"role:master maxmemory_policy:allkeys-lru":     "may evict locks",
		"role:active-replica":                          "other servers accept writes",
		"role:active-replica maxmemory_policy:allkeys": "may evict locks",
	} {
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Says(says))
		sender := transport.NewSender(rdb, transport.Topology{Single: true}, time.Second, transport.Replicas{})
		t.Cleanup(sender.Stop)
		var log strings.Builder
		transport.NewProbe(sender, nil, "lockmw", slog.New(slog.NewTextHandler(&log, nil))).RunNow()
		if got := log.String(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("a server that says %q is logged as %q, want %q", says, got, want)
		}
	}
}
