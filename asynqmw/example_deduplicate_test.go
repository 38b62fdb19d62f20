package asynqmw_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// An Event is what a payment provider sends to a webhook, which enqueues a task for it.
type Event struct{ Account, ID string }

// The provider sends an event twice. The first task runs, and fails at first. asynq tries it again. The second task succeeds without its
// handler.
func ExampleDeduplicate() {
	shop := openShop()
	defer shop.close()
	once := idempotency.New(lockmw.NewLocal()) // in production: lockmw.New(rdb)

	event := asynqmw.PayloadKey(func(e Event) idempotency.Key { return idempotency.Key{Scope: e.Account, ID: e.ID} })
	h := asynqmw.Deduplicate(once, event)(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		attempt := idempotency.Attempt(ctx)
		fmt.Println("run", attempt)
		if attempt == 1 {
			return fmt.Errorf("the warehouse does not answer")
		}
		return nil
	}))
	done := make(chan struct{})
	shop.fulfil(reporting(h, func(id string, err error) {
		fmt.Println(id, "fails:", err != nil)
		if err != nil {
			go runNow(shop, id) // in production asynq waits for its retry delay
			return
		}
		done <- struct{}{}
	}))
	for _, id := range []string{"task-1", "task-2"} {
		task := asynq.NewTask("order:fulfil", []byte(`{"Account":"acme","ID":"evt_17"}`))
		if _, err := shop.Enqueue(task, asynq.TaskID(id)); err != nil {
			fmt.Println(err)
			return
		}
		<-done
	}
	// Output:
	// run 1
	// task-1 fails: true
	// run 2
	// task-1 fails: false
	// task-2 fails: false
}

// runNow runs a task that waits for its retry.
func runNow(s *shop, id string) {
	for s.RunTask("default", id) != nil {
		time.Sleep(time.Millisecond)
	}
}
