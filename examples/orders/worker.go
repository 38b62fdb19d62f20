package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/examples/orders/internal/figures"
)

// announce hands an accepted order to the workers. The request's end does not stop it: the order
// is stored, so it must be shipped.
func (s *shop) announce(ctx context.Context, id int64, item string) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	payload, err := json.Marshal(fulfilment{Order: id, Item: item})
	if err != nil {
		return err
	}
	task := asynq.NewTaskWithHeaders(typeFulfil, payload, asynqmw.Headers(ctx),
		asynq.Queue(s.name), asynq.MaxRetry(10), asynq.Timeout(time.Minute))

	ctx = context.WithoutCancel(ctx)
	errs := make([]error, s.deliveries)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.queue.EnqueueContext(ctx, task) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("enqueueing order %d: %w", id, err)
	}
	s.counts.Announced.Add(int64(len(errs)))
	return nil
}

// workers returns the asynq server and its handler, ready to start.
func (s *shop) workers(redis asynq.RedisConnOpt) (*asynq.Server, asynq.Handler) {
	server := asynq.NewServer(redis, asynqmw.Configure(asynq.Config{
		Concurrency:              20,
		Queues:                   map[string]int{s.name: 1},
		TaskCheckInterval:        100 * time.Millisecond,
		DelayedTaskCheckInterval: 500 * time.Millisecond, // tasks that found their item locked come back by this
		ShutdownTimeout:          5 * time.Second,
		LogLevel:                 asynq.ErrorLevel,
		// After a failure, such as a Redis that was too slow to say who has the lock. asynq's default
		// begins with 15 s or more.
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second },
	}))
	mux := asynq.NewServeMux()
	mux.Use(asynqmw.Trace(s.tracer))
	s.tasks(mux)
	return server, mux
}

// named says who a task is, for the list of the slowest waits.
func named(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var f fulfilment
		_ = json.Unmarshal(t.Payload(), &f) // fulfil reports it
		return next.ProcessTask(figures.WithActor(ctx, fmt.Sprintf("order %d shipping", f.Order)), t)
	})
}
