package asynqmw_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A task that meets a busy key may ask several times in one attempt, for example before and after it is parked.
func TestEachAttemptOfADuplicateHasOneOutcome(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		var o usertest.Outcomes
		var attempts atomic.Int32
		counted := func(next asynq.Handler) asynq.Handler {
			return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				attempts.Add(1)
				return next.ProcessTask(ctx, task)
			})
		}
		begun, finish := make(chan struct{}, 1), make(chan struct{})
		h := handle(func(context.Context) error {
			begun <- struct{}{}
			<-finish
			return nil
		})
		once := idempotency.New(usertest.Client(t, s, lockmw.WithObserver(o.Observer())))
		q := startQueueOn(t, queueOn(s), parked(4), counted(asynqmw.Deduplicate(once, byEvent)(h)))
		ids := []string{q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour))}
		<-begun
		for range 5 {
			ids = append(ids, q.enqueue(fulfilEvent("1"), asynq.Retention(time.Hour)))
		}
		q.awaitParked(ids[1:]...)
		close(finish)
		q.awaitDone(ids...)
		got := o.Take()
		if len(got) != int(attempts.Load()) {
			t.Errorf("%d attempts have %d outcomes: %q", attempts.Load(), len(got), got)
		}
		count := func(outcome string) (n int) {
			for _, o := range got {
				if o == outcome {
					n++
				}
			}
			return n
		}
		if kept, replayed := count("kept"), count("replayed"); kept != 1 || replayed != len(ids)-1 || !slices.Contains(got, "in_flight") {
			t.Errorf("the outcomes are %q, want one kept, %d replayed and some in_flight", got, len(ids)-1)
		}
	})
}
