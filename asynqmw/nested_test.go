package asynqmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

var (
	byOuter = asynqmw.By("outer", asynqmw.Payload(func(o order) string { return o.Item }))
	byInner = asynqmw.By("inner", asynqmw.Payload(func(o order) string { return o.Item }))
)

// The other call waits for the outer lock of the task while the task waits for the inner one.
func TestADeadlockPutsATaskBackOnItsLastAttempt(t *testing.T) {
	for name, cfg := range map[string]func() asynq.Config{
		"configured":     func() asynq.Config { return parked(4) },
		"not configured": quickBare,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, on asynq.RedisConnOpt) {
				s := on.(pipedRedis).s
				q, locks, other := newQueue(t, on), usertest.Client(t, s), usertest.Client(t, s)
				ctx, inner := usertest.Lock(t, t.Context(), other, "inner:7")
				tries, detect := make(chan struct{}, 10), lockmw.WithDeadlockDetection(10*time.Millisecond)
				contended := lockmw.WithObserver(&lockmw.Observer{
					Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { tries <- struct{}{} },
				})
				h := asynqmw.WithLock(locks, byInner, detect, contended)(handle(func(context.Context) error { return nil }))
				startServer(t, on, cfg(), asynqmw.WithLock(locks, byOuter)(h))
				id := q.fulfil("7", asynq.MaxRetry(0))
				receive(t, tries)
				_, outer := usertest.Lock(t, ctx, other, "outer:7", detect)
				usertest.Unlock(t, outer)
				usertest.Unlock(t, inner)
				q.awaitDone(id)
			})
		})
	}
}
