package lockevents_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockevents"
	"github.com/lockmw/go/lockmw"
)

// A Client records its events, and a History reads the events of one key.
func Example() {
	server := miniredis.NewMiniRedis() // in a program: your Redis
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	inspector, err := lockmw.NewInspector(rdb) // or another redis client
	if err != nil {
		panic(err)
	}
	events := lockevents.New(inspector)
	locks, err := lockmw.New(rdb, lockmw.WithObserver(events.Observer()))
	if err != nil {
		panic(err)
	}
	err = lockmw.Do(context.Background(), locks, "user:42", func(context.Context) error { return nil }, lockmw.WithLabel("order-1"))
	if err != nil {
		panic(err)
	}
	_ = locks.Close()
	if err := events.Close(); err != nil { // after the last lock
		panic(err)
	}

	history := lockevents.NewHistory(inspector)
	recent, err := history.Recent(context.Background(), "user:42", 10)
	if err != nil {
		panic(err)
	}
	for _, e := range recent {
		fmt.Println(e.Kind, e.Key, e.Label)
	}
	// Output:
	// acquired user:42 order-1
	// released user:42 order-1
}

// An operator's release by force is recorded with the operator's name.
func ExampleRecorder_ForceUnlocked() {
	server := miniredis.NewMiniRedis() // in a program: your Redis
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	locks, err := lockmw.New(rdb)
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	ctx := context.Background()
	if _, _, err := locks.Lock(ctx, "user:42", lockmw.WithLabel("order-1")); err != nil {
		panic(err)
	}

	inspector, err := lockmw.NewInspector(rdb)
	if err != nil {
		panic(err)
	}
	events := lockevents.New(inspector)
	defer events.Close()
	status, err := inspector.Get(ctx, "user:42")
	if err != nil {
		panic(err)
	}
	holder := status.Holders[0]
	if err := inspector.ForceUnlock(ctx, status.Key, holder); err != nil {
		panic(err)
	}
	taken := lockevents.Taken{Key: status.Key, Mode: status.Mode, Holder: holder}
	if err := events.ForceUnlocked(ctx, "alice", taken); err != nil {
		panic(err)
	}

	history := lockevents.NewHistory(inspector)
	last, err := history.Recent(ctx, "user:42", 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(last[0].Kind, last[0].Label, "by", last[0].By)
	// Output: forced order-1 by alice
}
