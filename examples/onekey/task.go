package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/lockmw"
)

// A restock is the payload of a task.
type restock struct{ Item string }

// handlers is the asynq side: a task restocks an item. A task whose item is busy goes back into the queue.
func (s *scene) handlers(locks lockmw.Locker) asynq.Handler {
	byItem := asynqmw.By("item", asynqmw.Payload(func(r restock) string { return r.Item }))
	mux := asynq.NewServeMux()
	mux.Use(asynqmw.Trace(s.tracer))
	mux.Handle("item:restock", asynqmw.WithLock(locks, byItem)(asynq.HandlerFunc(
		func(ctx context.Context, task *asynq.Task) error {
			var r restock
			if err := json.Unmarshal(task.Payload(), &r); err != nil {
				return err
			}
			s.work(ctx, "task", "restocks", r.Item)
			return nil
		})))
	return mux
}

// openTasks starts a server of asynq. The function that it returns enqueues a task.
func (s *scene) openTasks(locks lockmw.Locker) (restockItem func(ctx context.Context, item string) error, err error) {
	client := asynq.NewClient(s.redis.Asynq())
	s.atEnd(client.Close)
	server := asynq.NewServer(s.redis.Asynq(), asynqmw.Configure(asynq.Config{
		DelayedTaskCheckInterval: time.Second,
		LogLevel:                 asynq.FatalLevel,
	}))
	if err := server.Start(s.handlers(locks)); err != nil {
		return nil, err
	}
	s.atEnd(func() error { server.Shutdown(); return nil })
	return func(ctx context.Context, item string) error {
		payload, err := json.Marshal(restock{item})
		if err != nil {
			return err
		}
		_, err = client.EnqueueContext(ctx, asynq.NewTaskWithHeaders("item:restock", payload, asynqmw.Headers(ctx)))
		return err
	}, nil
}
