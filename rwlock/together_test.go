package rwlock_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// The last write hold and the last read hold are unlocked at the same time, so the lock that the former would downgrade may be gone.
func TestHoldsOfOneLockMayBeUnlockedTogether(t *testing.T) {
	c, err := lockmw.New(redistest.Mini(t).NewClient(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, l := range map[string]lockmw.RWLocker{"redis": rwlock.New(c), "local": lockmw.NewLocal()} {
		t.Run(name, func(t *testing.T) {
			for range 500 {
				ctx, write, err := l.Lock(t.Context(), "k")
				if err != nil {
					t.Fatal(err)
				}
				_, read, err := l.RLocker().Lock(context.WithoutCancel(ctx), "k")
				if err != nil {
					t.Fatal(err)
				}
				var errs [2]error
				var wg sync.WaitGroup
				start := make(chan struct{})
				for i, hold := range []*lockmw.Hold{write, read} {
					wg.Go(func() {
						<-start
						errs[i] = hold.Unlock()
					})
				}
				close(start)
				wg.Wait()
				if errs[0] != nil || errs[1] != nil {
					t.Fatalf("Unlock of the write hold: %v, of the read hold: %v", errs[0], errs[1])
				}
			}
		})
	}
}
