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
	"github.com/lockmw/go/lockmw"
)

const typeFulfil = "order:fulfil"

// A fulfilment is the payload of a task.
type fulfilment struct {
	Order int64  `json:"order"`
	Item  string `json:"item"`
}

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
		asynq.Queue(s.queue), asynq.MaxRetry(10), asynq.Timeout(time.Minute))

	ctx = context.WithoutCancel(ctx)
	errs := make([]error, s.deliveries)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.tasks.EnqueueContext(ctx, task) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("enqueueing order %d: %w", id, err)
	}
	s.counts.announced.Add(int64(len(errs)))
	return nil
}

// workers returns the asynq server and its handler, ready to start.
func (s *shop) workers(redis asynq.RedisConnOpt) (*asynq.Server, asynq.Handler) {
	server := asynq.NewServer(redis, asynqmw.Configure(asynq.Config{
		Concurrency:              20,
		Queues:                   map[string]int{s.queue: 1},
		TaskCheckInterval:        100 * time.Millisecond,
		DelayedTaskCheckInterval: 500 * time.Millisecond, // tasks that found their item locked come back by this
		ShutdownTimeout:          5 * time.Second,
		LogLevel:                 asynq.ErrorLevel,
		// After a failure, such as a Redis that was too slow to say who has the lock. asynq's default
		// begins with 15 s or more.
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second },
	}))

	// The item's lock is the one that requests take: the key is the same.
	byItem := asynqmw.By("item", asynqmw.Payload(func(f fulfilment) string { return f.Item }))
	mux := asynq.NewServeMux()
	mux.Use(asynqmw.Trace(s.tracer))
	mux.Handle(typeFulfil, s.named(asynqmw.WithLock(s.locks, byItem,
		lockmw.WithWait(s.patience), // in the worker's slot; then back into the queue
		lockmw.WithObserver(s.counts.requeues()),
		asynqmw.WithRequeueDelay(time.Second, 2*time.Second))(asynq.HandlerFunc(s.fulfil))))
	return server, mux
}

// fulfil runs under the item's lock, and ships an order once however often it is called.
func (s *shop) fulfil(ctx context.Context, t *asynq.Task) (err error) {
	defer func() {
		if err == nil {
			s.counts.delivered.Add(1)
		}
	}()
	var f fulfilment
	if err := json.Unmarshal(t.Payload(), &f); err != nil {
		return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
	}
	item, err := lockmw.Held(ctx, lockmw.Key("item", f.Item))
	if err != nil {
		return err
	}
	if done, err := s.store.shipped(ctx, f.Order); err != nil || done {
		return err
	}
	return s.ship(ctx, f.Order, item.Token())
}

func (s *shop) ship(ctx context.Context, order, token int64) error {
	if err := s.outside(ctx, "ship", s.carrier); err != nil {
		return err
	}
	if err := s.store.collect(ctx, order); err != nil {
		return err
	}
	return s.store.markShipped(ctx, order, token)
}

// named says who a task is, for the list of the slowest waits.
func (s *shop) named(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var f fulfilment
		_ = json.Unmarshal(t.Payload(), &f) // fulfil reports it
		return next.ProcessTask(withActor(ctx, fmt.Sprintf("order %d shipping", f.Order)), t)
	})
}
