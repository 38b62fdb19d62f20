package lockmw_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lockmw/go/lockmw"
)

func TestLocalExpireLosesTheHold(t *testing.T) {
	local := lockmw.NewLocal()
	ctx, hold, err := local.Lock(t.Context(), "user:42")
	if err != nil {
		t.Fatal(err)
	}
	local.Expire("user:42")
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
		t.Errorf("cause is %v, want ErrLost", cause)
	}
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Unlock after the loss: %v, want ErrLost", err)
	}
}

func BenchmarkLocal(b *testing.B) {
	benchmarkLock(b, context.Background(), lockmw.NewLocal())
}

func BenchmarkReentry(b *testing.B) {
	local := lockmw.NewLocal()
	ctx, hold, err := local.Lock(context.Background(), "user:42")
	if err != nil {
		b.Fatal(err)
	}
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
