package recipes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// What the locks of docs/consumers.md cost: the same messages with and without them, one after the other and for many keys.
func BenchmarkStreams(b *testing.B) {
	for _, keys := range []int{1, 100} {
		for name, key := range map[string]lockmw.KeyFunc[redis.XMessage]{
			"locked": byOrder,
			"free":   func(context.Context, redis.XMessage) (string, error) { return "", lockmw.ErrNoLock },
		} {
			b.Run(fmt.Sprintf("%d keys/%s", keys, name), func(b *testing.B) {
				s := redistest.Redis(b)
				rdb, locks := s.NewClient(b), usertest.Client(b, s)
				pipe := rdb.Pipeline()
				for i := range b.N {
					pipe.XAdd(b.Context(), &redis.XAddArgs{Stream: "orders", Values: order(i % keys)})
				}
				if _, err := pipe.Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
				var all sync.WaitGroup
				all.Add(b.N)
				ctx, cancel := context.WithCancel(b.Context())
				var run sync.WaitGroup
				b.ResetTimer()
				run.Go(func() {
					_ = membership(rdb, "member").Run(ctx, locks, key, func(context.Context, redis.XMessage) error {
						all.Done()
						return nil
					}, nil)
				})
				all.Wait()
				b.StopTimer()
				cancel()
				run.Wait()
			})
		}
	}
}
