package bridge_test

import (
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// BenchmarkLock is a free lock on a real server: by lockmw alone, and by the bridges.
func BenchmarkLock(b *testing.B) {
	server := redistest.Redis(b)
	rdb := server.NewClient(b)
	c := usertest.ClientOf(b, rdb)
	lockers := map[string]lockmw.Locker{"lockmw alone": c}
	for _, w := range oldWays() {
		lockers[w.name] = w.bridge(c, rdb)
	}
	for name, locks := range lockers {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, hold := usertest.Lock(b, b.Context(), locks, key)
				usertest.Unlock(b, hold)
			}
		})
	}
}
