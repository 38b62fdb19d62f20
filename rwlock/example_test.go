package rwlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
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

// Many callers read at a time; a writer excludes all others.
func Example() {
	client, stop := connect()
	defer stop()
	prices := rwlock.New(client)
	ctx, key := context.Background(), lockmw.Key("item", "7")

	_, one, err := prices.RLock(ctx, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, other, err := prices.RLock(ctx, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = prices.TryLock(ctx, key)
	fmt.Println("write while others read:", errors.Is(err, lockmw.ErrBusy))
	for _, reader := range []*lockmw.Hold{one, other} {
		if err := reader.Unlock(); err != nil {
			fmt.Println(err)
		}
	}

	_, hold, err := prices.TryLock(ctx, key)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Unlock()
	_, _, err = prices.TryRLock(ctx, key)
	fmt.Println("read while another writes:", errors.Is(err, lockmw.ErrBusy))
	// Output:
	// write while others read: true
	// read while another writes: true
}

// The caller that finds a cache empty fills it, and continues as a reader of its own value. No other caller can write in between.
func ExampleLocker_Downgrade() {
	client, stop := connect()
	defer stop()
	pages := rwlock.New(client)
	key, cache := lockmw.Key("page", "home"), ""

	ctx, hold, err := pages.Lock(context.Background(), key)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Unlock()
	cache = "rendered"
	if err := pages.Downgrade(ctx, hold); err != nil {
		fmt.Println(err) // unless the lock was lost, it is still held
		return
	}
	_, reader, err := pages.TryRLock(context.Background(), key) // other readers get in again
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Unlock()
	fmt.Println(cache)
	// Output: rendered
}

// A reader that needs to write must first unlock, and check the data again afterwards, because others may have written in between.
func Example_upgrade() {
	client, stop := connect()
	defer stop()
	items, key := rwlock.New(client), lockmw.Key("item", "7")

	ctx, reading, err := items.RLock(context.Background(), key)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _, err = items.Lock(ctx, key)
	fmt.Println(errors.Is(err, lockmw.ErrUpgrade))
	if err := reading.Unlock(); err != nil {
		fmt.Println(err)
	}
	_, writing, err := items.Lock(context.Background(), key)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer writing.Unlock()
	fmt.Println("writing")
	// Output:
	// true
	// writing
}
