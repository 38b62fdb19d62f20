package migration_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis/rueidislock"
)

// BenchmarkWaitNextToOldCode measures how long a bridge waits for a lock for which callers of the old library compete. Each holds
// it for 10 ms, and then takes it again.
func BenchmarkWaitNextToOldCode(b *testing.B) {
	const hold = 10 * time.Millisecond
	at := oneServer(b)
	for i := range libraries {
		lib := &libraries[i]
		for _, n := range []int{1, 4, 16} {
			b.Run(fmt.Sprintf("%s-%d", lib.name, n), func(b *testing.B) {
				ctx, cancel := context.WithCancel(b.Context())
				var callers sync.WaitGroup
				var turns atomic.Int64
				for range n {
					callers.Go(func() { compete(ctx, b, lib, at.address, hold, &turns) })
				}
				take, err := lib.taker(both, at.address)
				if err != nil {
					b.Fatal(err)
				}
				var waits []time.Duration
				for b.Loop() {
					begun := time.Now()
					h, err := take(ctx, "item:1")
					if err != nil {
						b.Fatal(err)
					}
					waits = append(waits, time.Since(begun))
					time.Sleep(hold)
					h.release()
					time.Sleep(hold) // so that old code has a turn
				}
				cancel()
				callers.Wait()
				slices.Sort(waits)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(turns.Load())/float64(len(waits)), "old-turns/op")
				b.ReportMetric(float64(waits[len(waits)/2].Milliseconds()), "p50-ms")
				b.ReportMetric(float64(waits[len(waits)*99/100].Milliseconds()), "p99-ms")
			})
		}
	}
}

// compete takes and releases the lock as the old code does, until ctx ends.
func compete(ctx context.Context, b *testing.B, lib *library, at address, hold time.Duration, turns *atomic.Int64) {
	take, err := lib.open(at)
	if lib.name == "rueidislock" {
		take, err = waitingRueidislock(at) // it is woken, unlike TryWithContext
	}
	if err != nil {
		b.Error(err)
		return
	}
	for ctx.Err() == nil {
		if h, err := take(ctx, "item:1"); err == nil {
			turns.Add(1)
			time.Sleep(hold)
			h.release()
		}
	}
}

func waitingRueidislock(at address) (taker, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: at.rueidis(), NoLoopTracking: true})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (held, error) {
		_, cancel, err := locker.WithContext(ctx, key)
		return held{release: cancel}, err
	}, nil
}
