package fairlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/lockmw"
)

// connect returns a Client of an embedded server. A program would connect to its Redis.
func connect() (c *lockmw.Client, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	server.ClockTTL(true)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	c, err = lockmw.New(rdb)
	if err != nil {
		panic(err)
	}
	return c, func() {
		c.Close()
		rdb.Close()
		server.Close()
	}
}

// queued returns an option for a call, and a channel that is closed when the call is queued.
func queued() (lockmw.Option, <-chan struct{}) {
	inQueue := make(chan struct{})
	return lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(inQueue) },
	}), inQueue
}

// Waiting calls get the lock in the order in which they asked, whichever process they are in.
func Example() {
	client, stop := connect()
	defer stop()
	locks := fairlock.New(client)
	ctx := context.Background()

	_, hold, err := locks.Lock(ctx, "item:7")
	if err != nil {
		fmt.Println(err)
		return
	}
	served := make(chan string)
	for _, name := range []string{"Ann", "Bob", "Cid"} {
		option, inQueue := queued()
		go func() {
			_ = lockmw.Do(ctx, locks, "item:7", func(context.Context) error {
				served <- name
				return nil
			}, option)
		}()
		<-inQueue // start the next call after this one is queued
	}
	_, _, err = locks.TryLock(ctx, "item:7")
	fmt.Println("a try does not overtake:", errors.Is(err, lockmw.ErrBusy))

	_ = hold.Unlock()
	fmt.Println(<-served, <-served, <-served)
	// Output:
	// a try does not overtake: true
	// Ann Bob Cid
}

// A task does not wait without end: it is put back and tried again later. WithPlace keeps its turn, and the lock passes over it in
// the meantime.
func Example_withPlace() {
	client, stop := connect()
	defer stop()
	locks := fairlock.New(client)
	ctx := context.Background()
	served := make(chan string, 2)
	fulfil := func(ctx context.Context, task string, opts ...lockmw.Option) error {
		return lockmw.Do(ctx, locks, "item:7", func(context.Context) error {
			served <- task
			return nil
		}, append(opts, lockmw.WithPlace(task, time.Minute))...)
	}

	_, hold, err := locks.Lock(ctx, "item:7")
	if err != nil {
		fmt.Println(err)
		return
	}
	brief, giveUp := context.WithCancel(ctx)
	option, inQueue := queued()
	go func() {
		<-inQueue
		giveUp()
	}()
	err = fulfil(brief, "task 1", option)
	fmt.Println("task 1 is put back:", errors.Is(err, lockmw.ErrBusy))

	errs := make(chan error)
	for _, task := range []string{"task 2", "task 1"} {
		option, inQueue := queued()
		go func() { errs <- fulfil(ctx, task, option) }()
		<-inQueue
	}
	_ = hold.Unlock()
	fmt.Println(<-errs, <-errs)
	fmt.Println(<-served, "before", <-served)
	// Output:
	// task 1 is put back: true
	// <nil> <nil>
	// task 1 before task 2
}

// An observer reports a call's position in the queue: at the start, and each time that it moves up.
func ExampleLocker_Lock_position() {
	client, stop := connect()
	defer stop()
	locks := fairlock.New(client)
	ctx := context.Background()
	positions := make(chan string)
	show := func(_ context.Context, _ lockmw.Attempt, c lockmw.Contention) {
		positions <- fmt.Sprintf("%d of %d", c.Position, c.Waiters)
	}
	observer := lockmw.WithObserver(&lockmw.Observer{Contended: show, Waiting: show})

	_, first, err := locks.Lock(ctx, "item:7")
	if err != nil {
		fmt.Println(err)
		return
	}
	next := make(chan *lockmw.Hold)
	option, inQueue := queued()
	go func() {
		_, hold, _ := locks.Lock(ctx, "item:7", option)
		next <- hold
	}()
	<-inQueue
	last := make(chan error)
	go func() {
		last <- lockmw.Do(ctx, locks, "item:7", func(context.Context) error { return nil }, observer)
	}()
	fmt.Println("at the start:", <-positions)

	_ = first.Unlock()
	second := <-next
	fmt.Println("a little later:", <-positions)
	_ = second.Unlock()
	fmt.Println("done:", <-last)
	// Output:
	// at the start: 2 of 2
	// a little later: 1 of 1
	// done: <nil>
}
