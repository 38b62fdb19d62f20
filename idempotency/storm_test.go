package idempotency_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/interrupt"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

// stormLease is short, so that many processes are stopped for longer.
const stormLease = 250 * time.Millisecond

// storm runs a storm of buyers.
func storm(t testing.TB, way string, clients, keys, retries int, limit time.Duration) *interrupt.Toll {
	t.Helper()
	server := redistest.Redis(t, redistest.Kept...)
	ledger := interrupt.Ledger{Path: filepath.Join(t.TempDir(), "effects")}
	s := interrupt.Storm{
		Clients: clients, Keys: keys, Retries: retries, Limit: limit, Redis: server, Lease: stormLease,
		Spec:    buyerSpec{Addr: server.Addr(), Way: way, Lease: stormLease, Ledger: ledger, Effort: 50 * time.Millisecond},
		Effects: ledger.All,
		Once:    func(key string) bool { return way == naive || wayOf(key) == refuse },
	}
	toll := s.Run(t)
	t.Logf("%s: %v", way, toll)
	return toll
}

func TestAStormContradictsNothing(t *testing.T) {
	t.Parallel()
	clients, keys, retries, limit := 40, 200, 2, 3*time.Second
	if suite.Full() {
		clients, keys, retries, limit = 100, 1000, 3, 8*time.Second
	}
	if toll := storm(t, mixed, clients, keys, retries, limit); len(toll.Faults) > 0 {
		t.Errorf("%q", toll.Samples)
	}
}

// BenchmarkStorm runs all of the storm, with a Runner and with what many services have instead:
//
//	go test ./idempotency -run - -bench Storm -benchtime 1x -timeout 1h
func BenchmarkStorm(b *testing.B) {
	for _, way := range []string{mixed, naive} {
		b.Run(way, func(b *testing.B) {
			for b.Loop() {
				toll := storm(b, way, 100, 1000, 10, time.Hour)
				b.ReportMetric(float64(toll.Faults[interrupt.Contradiction]), "contradictions")
				b.ReportMetric(float64(toll.Faults[interrupt.DoubleEffect]), "double-effects")
				if way != naive && len(toll.Faults) > 0 {
					b.Errorf("%q", toll.Samples)
				}
			}
		})
	}
}
