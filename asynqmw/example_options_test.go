package asynqmw_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/lockmw"
)

// A shop has a queue of tasks on an embedded Redis.
type shop struct {
	*asynq.Client
	*asynq.Inspector
	redis  *miniredis.Miniredis
	server *asynq.Server
}

func openShop() *shop {
	redis, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	opt := asynq.RedisClientOpt{Addr: redis.Addr()}
	return &shop{
		Client:    asynq.NewClient(opt),
		Inspector: asynq.NewInspector(opt),
		redis:     redis,
		// Without Configure, busy locks would spend retries.
		server: asynq.NewServer(opt, asynqmw.Configure(asynq.Config{
			Concurrency:              4,
			TaskCheckInterval:        10 * time.Millisecond,
			DelayedTaskCheckInterval: 10 * time.Millisecond, // in production: time.Second
			LogLevel:                 asynq.FatalLevel,
		})),
	}
}

// fulfil starts to process orders with h.
func (s *shop) fulfil(h asynq.Handler) {
	mux := asynq.NewServeMux()
	mux.Handle("order:fulfil", h)
	if err := s.server.Start(mux); err != nil {
		log.Fatal(err)
	}
}

// order enqueues an order of item 7.
func (s *shop) order(id string, opts ...asynq.Option) {
	task := asynq.NewTask("order:fulfil", []byte(`{"Item":"7"}`))
	if _, err := s.Enqueue(task, append(opts, asynq.TaskID(id))...); err != nil {
		log.Fatal(err)
	}
}

func (s *shop) close() {
	s.server.Shutdown()
	_ = s.Client.Close()
	_ = s.Inspector.Close()
	s.redis.Close()
}

// byOrderedItem locks the item of an order.
var byOrderedItem = asynqmw.By("item", asynqmw.Payload(func(o Order) string { return o.Item }))

// takeItem takes the lock of item 7 outside of a task, as a request does.
func takeItem(locks lockmw.Locker) *lockmw.Hold {
	_, hold, err := locks.Lock(context.Background(), "item:7")
	if err != nil {
		log.Fatal(err)
	}
	return hold
}

// reporting calls report with the error of each attempt, before asynq receives it.
func reporting(next asynq.Handler, report func(id string, err error)) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := next.ProcessTask(ctx, task)
		id, _ := asynq.GetTaskID(ctx)
		report(id, err)
		return err
	})
}

// A task with a single attempt meets a busy lock. WithRescue keeps asynq from archiving it. Here a copy of it continues, because the
// locks are not in the Redis of the queue.
func ExampleWithRescue() {
	shop := openShop()
	defer shop.close()
	locks := lockmw.NewLocal() // in production: lockmw.New(rdb)
	hold := takeItem(locks)
	done := make(chan struct{})
	h := asynqmw.WithLock(locks, byOrderedItem,
		asynqmw.WithRescue(shop.Client),
		asynqmw.WithRequeueDelay(0, 0))( // in production: seconds
		asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
	shop.fulfil(reporting(h, func(id string, err error) {
		if id == "order-1" {
			fmt.Println(id, "finds the lock busy on its last attempt:", asynqmw.IsBusy(err))
			_ = hold.Unlock()
			return
		}
		if asynqmw.IsBusy(err) {
			return // the copy ran before Unlock
		}
		first, _, isCopy := strings.Cut(id, "~")
		fmt.Printf("a copy of %s is done: %t\n", first, isCopy && err == nil)
		close(done)
	}))
	shop.order("order-1", asynq.MaxRetry(0))
	<-done
	// Output:
	// order-1 finds the lock busy on its last attempt: true
	// a copy of order-1 is done: true
}

// A task that is put back loses its turn to callers that wait in the meantime. With a fair lock it can keep its place. Here a request
// arrives while the order is put back, and gets the lock after the order.
func ExampleWithPlaceKept() {
	shop := openShop()
	defer shop.close()
	locks := lockmw.NewLocal() // in production: fairlock.New(locks)
	hold := takeItem(locks)
	request := make(chan struct{})
	requestWaits := make(chan struct{})
	arrive := func() {
		defer close(request)
		_, hold, err := locks.Lock(context.Background(), "item:7", lockmw.WithObserver(&lockmw.Observer{
			Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(requestWaits) },
		}))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("the request")
		_ = hold.Unlock()
	}

	attempts := 0
	h := asynqmw.WithLock(locks, byOrderedItem,
		asynqmw.WithPlaceKept(time.Minute), // longer than the task takes to come back
		asynqmw.WithRequeueDelay(0, 0),
		lockmw.WithWait(500*time.Millisecond),
		lockmw.WithObserver(&lockmw.Observer{
			Contended: func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) {
				if attempts++; attempts == 2 {
					fmt.Println("the order is back, at position", c.Position)
					_ = hold.Unlock()
				}
			},
		}))(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		fmt.Println("the order")
		return nil
	}))
	shop.fulfil(reporting(h, func(_ string, err error) {
		if asynqmw.IsBusy(err) {
			fmt.Println("the order is put back")
			go arrive()
			<-requestWaits
		}
	}))
	shop.order("order-1")
	<-request
	// Output:
	// the order is put back
	// the order is back, at position 1
	// the order
	// the request
}

// A task that is put back spends no retry. If its lock is never free, it stays in the queue without end, unless WithMaxRequeues limits
// this.
func ExampleWithMaxRequeues() {
	shop := openShop()
	defer shop.close()
	locks := lockmw.NewLocal() // in production: lockmw.New(rdb)
	takeItem(locks)

	failed := make(chan struct{})
	h := asynqmw.WithLock(locks, byOrderedItem,
		asynqmw.WithRequeueDelay(0, 0),
		asynqmw.WithMaxRequeues(2))(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
	shop.fulfil(reporting(h, func(_ string, err error) {
		if asynqmw.IsBusy(err) {
			fmt.Println("put back")
			return
		}
		fmt.Println("a retry is spent")
		close(failed)
	}))
	shop.order("order-1")
	<-failed
	// Output:
	// put back
	// put back
	// a retry is spent
}

// The holder of the lock already does the work of this task, so the task can be dropped.
func ExampleWithOnBusy() {
	shop := openShop()
	defer shop.close()
	locks := lockmw.NewLocal() // in production: lockmw.New(rdb)
	hold := takeItem(locks)

	ended := make(chan struct{})
	h := asynqmw.WithLock(locks, byOrderedItem, asynqmw.WithOnBusy(asynqmw.Drop))(
		asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			fmt.Println("not reached")
			return nil
		}))
	shop.fulfil(reporting(h, func(_ string, err error) {
		fmt.Println("dropped:", err != nil && !asynqmw.IsBusy(err))
		close(ended)
	}))
	shop.order("order-1")
	<-ended
	_ = hold.Unlock()
	// Output:
	// dropped: true
}
