package lockmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// How much Err of a hold's context costs, which code may call in a loop.
func BenchmarkErr(b *testing.B) {
	c := usertest.Client(b, redistest.Mini(b))
	for name, l := range map[string]lockmw.Locker{
		"redis": c,
		"local": lockmw.NewLocal(),
	} {
		b.Run(name, func(b *testing.B) {
			ctx, hold := usertest.Lock(b, b.Context(), l, "item:1", lockmw.WithMaxHold(time.Hour))
			for b.Loop() {
				if err := ctx.Err(); err != nil {
					b.Fatal(err)
				}
			}
			usertest.Unlock(b, hold)
		})
	}
}

func BenchmarkLocal(b *testing.B) { benchmarkLock(b, context.Background(), lockmw.NewLocal()) }

func BenchmarkReentry(b *testing.B) {
	local := lockmw.NewLocal()
	ctx, hold := usertest.Lock(b, context.Background(), local, "user:42")
	defer func() { _ = hold.Unlock() }()
	benchmarkLock(b, ctx, local)
}

func benchmarkLock(b *testing.B, ctx context.Context, l lockmw.Locker) {
	b.ReportAllocs()
	for b.Loop() {
		_, hold, err := l.Lock(ctx, "user:42")
		if err != nil {
			b.Fatal(err)
		}
		if err := hold.Unlock(); err != nil {
			b.Fatal(err)
		}
	}
}
