package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/orders/internal/figures"
)

// announce passes an accepted order to the workers. It continues after the end of the request: the order
// is stored, so it must be shipped. If Redis is unavailable now, remind announces the order later.
func (s *shop) announce(ctx context.Context, f fulfilment) {
	ctx = context.WithoutCancel(ctx)
	var wg sync.WaitGroup
	for range s.deliveries {
		wg.Go(func() { _ = s.enqueue(ctx, f) })
	}
	wg.Wait()
}

// enqueue adds a task for an order.
func (s *shop) enqueue(ctx context.Context, f fulfilment, opts ...asynq.Option) error {
	payload, err := json.Marshal(f)
	if err != nil {
		return err
	}
	opts = append(opts, asynq.Queue(s.name), asynq.MaxRetry(100), asynq.Timeout(time.Minute))
	_, err = s.queue.EnqueueContext(ctx, asynq.NewTaskWithHeaders(typeFulfil, payload, asynqmw.Headers(ctx)), opts...)
	if err == nil {
		s.counts.Announced.Add(1)
	}
	return err
}

// remind announces orders again that are not shipped after some time, until ctx ends: Redis was unavailable or has lost
// their tasks. If a task was only late, its order then has two, which is harmless.
func (s *shop) remind(ctx context.Context) error {
	for clock.Sleep(ctx, time.Second) == nil {
		forgotten, err := s.books.Forgotten(ctx, 10)
		if err != nil && ctx.Err() == nil {
			return err
		}
		for _, o := range forgotten {
			// The ID limits each order to one reminder in the queue.
			err := s.enqueue(ctx, fulfilment{Order: o.ID, Item: o.Item}, asynq.TaskID(fmt.Sprintf("reminder-%d", o.ID)))
			if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
				slog.WarnContext(ctx, "announcing an order failed", "error", err)
				break // retried later
			}
		}
	}
	return nil
}

// workers returns the asynq server and its handler, ready to start.
func (s *shop) workers(redis asynq.RedisConnOpt) (*asynq.Server, asynq.Handler) {
	server := asynq.NewServer(redis, asynqmw.Configure(asynq.Config{
		Concurrency:              20,
		Queues:                   map[string]int{s.name: 1},
		TaskCheckInterval:        100 * time.Millisecond,
		DelayedTaskCheckInterval: 500 * time.Millisecond, // tasks whose item was locked return at this interval
		ShutdownTimeout:          5 * time.Second,
		LogLevel:                 asynq.ErrorLevel,
		// After a failure, such as a slow answer of Redis. asynq's default starts at 15 s or more.
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second },
	}))
	mux := asynq.NewServeMux()
	mux.Use(asynqmw.Trace(s.tracer))
	s.tasks(mux)
	return server, mux
}

// named names a task for the list of the slowest waits.
func named(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var f fulfilment
		_ = json.Unmarshal(t.Payload(), &f) // fulfil reports errors
		return next.ProcessTask(figures.WithActor(ctx, fmt.Sprintf("order %d shipping", f.Order)), t)
	})
}
