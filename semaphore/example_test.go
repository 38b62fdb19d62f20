package semaphore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/semaphore"
)

// Two exports of a tenant at a time; a third one is refused until one of them has ended.
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
	fmt.Println("after that it has slot", third.Slot())
	// Output:
	// slots 0 and 1
	// a third is refused: true
	// after that it has slot 0
}

// A call that needs more than others takes several permits at once.
func Example_weight() {
	workers := semaphore.NewLocal(lockmw.NewLocal(), 8)
	_ = lockmw.Do(context.Background(), workers, "workers:pool", func(ctx context.Context) error {
		hold, _ := lockmw.FromContext(ctx)
		fmt.Println("slots", hold.Slots())
		return nil
	}, lockmw.WithWeight(3))
	// Output: slots [0 1 2]
}
