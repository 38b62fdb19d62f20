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

// Many read at a time, and a writer has the key for itself.
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

// A cache that is filled by whoever finds it empty: the writer goes on as a reader of what it wrote,
// and nobody can write in between.
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
		fmt.Println(err) // it still holds the lock, for reading at least
		return
	}
	_, reader, err := pages.TryRLock(context.Background(), key) // others read again
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reader.Unlock()
	fmt.Println(cache)
	// Output: rendered
}

// Who reads and wants to write has to give up the read lock first, and look again afterwards: others may
// have written meanwhile.
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
