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

// connect returns a Client of an embedded server, where a program has one of its Redis.
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

// queued is an option of a call, and what is closed when the call stands in the queue.
func queued() (lockmw.Option, <-chan struct{}) {
	stands := make(chan struct{})
	return lockmw.WithObserver(&lockmw.Observer{
		Contended: func(context.Context, lockmw.Attempt, lockmw.Contention) { close(stands) },
	}), stands
}

// Those who wait get the lock in the order in which they asked, whatever process they are in.
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
		option, stands := queued()
		go func() {
			_ = lockmw.Do(ctx, locks, "item:7", func(context.Context) error {
				served <- name
				return nil
			}, option)
		}()
		<-stands // the next one asks later
	}
	_, _, err = locks.TryLock(ctx, "item:7")
	fmt.Println("a try overtakes nobody:", errors.Is(err, lockmw.ErrBusy))

	_ = hold.Unlock()
	fmt.Println(<-served, <-served, <-served)
	// Output:
	// a try overtakes nobody: true
	// Ann Bob Cid
}

// A task does not wait for ever: it is put back and tried again later. With a ticket it keeps its turn
// meanwhile, and nobody has to wait for it while it is away.
func Example_ticket() {
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
	option, stands := queued()
	go func() {
		<-stands
		giveUp()
	}()
	err = fulfil(brief, "task 1", option)
	fmt.Println("task 1 is put back:", errors.Is(err, lockmw.ErrBusy))

	errs := make(chan error)
	for _, task := range []string{"task 2", "task 1"} {
		option, stands := queued()
		go func() { errs <- fulfil(ctx, task, option) }()
		<-stands
	}
	_ = hold.Unlock()
	fmt.Println(<-errs, <-errs)
	fmt.Println(<-served, "before", <-served)
	// Output:
	// task 1 is put back: true
	// <nil> <nil>
	// task 1 before task 2
}

// An observer tells a caller where it stands: at the start, and each time that it has moved up.
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
	option, stands := queued()
	go func() {
		_, hold, _ := locks.Lock(ctx, "item:7", option)
		next <- hold
	}()
	<-stands
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
