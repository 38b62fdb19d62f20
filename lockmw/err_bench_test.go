package lockmw_test

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// How much Err of a hold's context costs, which code may call in a loop.
func BenchmarkErr(b *testing.B) {
	c, err := lockmw.New(redistest.Mini(b).NewClient(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	for name, l := range map[string]lockmw.Locker{
		"redis": c,
		"local": lockmw.NewLocal(),
	} {
		b.Run(name, func(b *testing.B) {
			ctx, hold, err := l.Lock(b.Context(), "item:1", lockmw.WithMaxHold(time.Hour))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := ctx.Err(); err != nil {
					b.Fatal(err)
				}
			}
			if err := hold.Unlock(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
