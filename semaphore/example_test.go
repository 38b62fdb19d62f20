package semaphore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// Two exports of a tenant run at a time. A third one is refused until one of them has ended.
func Example() {
	exports := semaphore.NewLocal(lockmw.NewLocal(), 2) // in a service: semaphore.New(locks, 2)
	ctx, key := context.Background(), lockmw.Key("exports", "acme")

	_, first, _ := exports.Lock(ctx, key)
	_, second, _ := exports.Lock(ctx, key)
	fmt.Println("slots", first.Slot(), "and", second.Slot())

	_, _, err := exports.TryLock(ctx, key)
	fmt.Println("a third is refused:", errors.Is(err, lockmw.ErrBusy))

	_ = first.Unlock()
	_, third, _ := exports.TryLock(ctx, key)
	fmt.Println("then it gets slot", third.Slot())
	// Output:
	// slots 0 and 1
	// a third is refused: true
	// then it gets slot 0
}

// A heavy call takes several permits together.
func Example_weight() {
	workers := semaphore.NewLocal(lockmw.NewLocal(), 8)
	_ = lockmw.Do(context.Background(), workers, "workers:pool", func(ctx context.Context) error {
		hold, _ := lockmw.FromContext(ctx)
		fmt.Println("slots", hold.Slots())
		return nil
	}, lockmw.WithWeight(3))
	// Output: slots [0 1 2]
}

// Two processes share the five permits of a payment provider's API. A call that finds them taken gets an error that says how many
// holders there are, and when to try again.
func ExampleNew() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	process := func() (locks *lockmw.Client, stop func(), err error) {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
		locks, err = lockmw.New(rdb)
		return locks, func() { _ = errors.Join(locks.Close(), rdb.Close()) }, err
	}
	a, stopA, errA := process()
	b, stopB, errB := process()
	if err := errors.Join(errA, errB); err != nil {
		fmt.Println(err)
		return
	}
	defer stopA()
	defer stopB()
	ctx, key := context.Background(), lockmw.Key("api", "acme")

	_, batch, err := semaphore.New(a, 5).Lock(ctx, key, lockmw.WithWeight(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer batch.Unlock()
	inB := semaphore.New(b, 5)
	for range 3 {
		_, permit, err := inB.TryLock(ctx, key)
		if e, ok := errors.AsType[*lockmw.Error](err); ok && errors.Is(err, lockmw.ErrBusy) {
			fmt.Println("busy:", len(e.Holders), "holders, retry later:", e.RetryAfter > 0)
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		defer permit.Unlock()
		fmt.Println("slot", permit.Slot())
	}
	// Output:
	// slot 3
	// slot 4
	// busy: 3 holders, retry later: true
}
