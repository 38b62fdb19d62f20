package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
)

// A lock without contention, taken and released. The server is a process of its own, so that only
// what this side allocates is counted.
func BenchmarkPair(b *testing.B) {
	for _, mode := range []core.Mode{core.Exclusive, core.Write, core.Read} {
		b.Run(mode.String(), func(b *testing.B) {
			e, err := New(redistest.Redis(b).NewClient(b), DefaultConfig())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = e.Close() })
			a := newRequester("item:1")
			a.Mode = mode
			b.ReportAllocs()
			for b.Loop() {
				g, err := e.Acquire(b.Context(), &a.Request)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := g.Release(time.Second); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
