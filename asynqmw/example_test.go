package asynqmw_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/lockmw"
)

type Order struct{ User, Item string }

// Two orders for one item arrive together. The second one finds the lock busy, goes back into the queue, and is fulfilled after the
// first one without spending a retry.
func ExampleWithLock() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	redis := asynq.RedisClientOpt{Addr: server.Addr()}
	locks := lockmw.NewLocal() // in production: lockmw.New(rdb)

	first, proceed, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	fulfil := func(ctx context.Context, task *asynq.Task) error {
		hold, _ := lockmw.FromContext(ctx)
		retried, _ := asynq.GetRetryCount(ctx)
		fmt.Printf("%s under %s, %d retries spent\n", task.Payload(), hold.Key(), retried)
		if first != nil {
			close(first)
			first = nil
			<-proceed
			return nil
		}
		close(done)
		return nil
	}
	requeued := make(chan struct{}, 1)
	count := func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := next.ProcessTask(ctx, task)
			if asynqmw.IsBusy(err) {
				select {
				case requeued <- struct{}{}:
				default:
				}
			}
			return err
		})
	}

	byItem := asynqmw.By("item", asynqmw.Payload(func(o Order) string { return o.Item }))
	mux := asynq.NewServeMux()
	mux.Use(count)
	mux.Handle("order:fulfil", asynqmw.WithLock(locks, byItem,
		asynqmw.WithRequeueDelay(0, time.Second))(asynq.HandlerFunc(fulfil)))
	srv := asynq.NewServer(redis, asynqmw.Configure(asynq.Config{
		Concurrency:              2,
		TaskCheckInterval:        10 * time.Millisecond,
		DelayedTaskCheckInterval: 50 * time.Millisecond,
		LogLevel:                 asynq.FatalLevel,
	}))
	if err := srv.Start(mux); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Shutdown()

	client := asynq.NewClient(redis)
	defer client.Close()
	order := func(user string) {
		payload := fmt.Appendf(nil, `{"User":%q,"Item":"7"}`, user)
		if _, err := client.Enqueue(asynq.NewTask("order:fulfil", payload)); err != nil {
			fmt.Println(err)
		}
	}
	started := first
	order("ann")
	<-started
	order("bob")
	<-requeued
	fmt.Println("bob's order is queued again")
	close(proceed)
	<-done
	// Output:
	// {"User":"ann","Item":"7"} under item:7, 0 retries spent
	// bob's order is queued again
	// {"User":"bob","Item":"7"} under item:7, 0 retries spent
}

// A unit test needs no server: a handler that is called directly reports a busy lock immediately.
func ExampleIsBusy() {
	locks := lockmw.NewLocal()
	byItem := asynqmw.By("item", asynqmw.Payload(func(o Order) string { return o.Item }))
	h := asynqmw.WithLock(locks, byItem)(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
	task := asynq.NewTask("order:fulfil", []byte(`{"Item":"7"}`))

	_, hold, err := locks.Lock(context.Background(), "item:7") // another holder
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(asynqmw.IsBusy(h.ProcessTask(context.Background(), task)))
	_ = hold.Unlock()
	fmt.Println(h.ProcessTask(context.Background(), task))
	// Output:
	// true
	// <nil>
}
