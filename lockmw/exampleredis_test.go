package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

// New takes any redis client. Options of New are the defaults of all locks.
func ExampleNew() {
	server := miniredis.NewMiniRedis() // in a program: your Redis
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	locks, err := lockmw.New(rdb, lockmw.WithPrefix("shop"), lockmw.WithLease(10*time.Second))
	if err != nil {
		panic(err)
	}
	defer locks.Close() // before rdb.Close

	err = lockmw.Do(context.Background(), locks, lockmw.Key("user", "42"), func(ctx context.Context) error {
		_, err := lockmw.Held(ctx, "user:42")
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}

// An Inspector shows who holds a lock and who waits for it. It also takes a lock away from its holder, whose context then ends.
func ExampleNewInspector() {
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
	_, hold, err := locks.Lock(ctx, "user:42", lockmw.WithLabel("order-1"))
	if err != nil {
		panic(err)
	}

	inspector, err := lockmw.NewInspector(rdb) // often in another process, with the same prefix
	if err != nil {
		panic(err)
	}
	for status, err := range inspector.All(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Println(status.Key, status.Mode, status.Holders[0].Label, "waiting:", status.Waiting())
	}

	status, err := inspector.Get(ctx, "user:42")
	if err != nil {
		panic(err)
	}
	if err := inspector.ForceUnlock(ctx, status.Key, status.Holders[0]); err != nil {
		panic(err)
	}
	fmt.Println("lost:", errors.Is(hold.Unlock(), lockmw.ErrLost))
	// Output:
	// user:42 exclusive order-1 waiting: 0
	// lost: true
}

// With two replicas, a lock counts only once both have it, so that a fail-over to either of them keeps it. The server itself
// should have min-replicas-to-write 1 and min-replicas-max-lag 1.
//
//nolint:testableexamples // it needs Sentinels and replicas
func ExampleWithReplicas() {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "locks",
		SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
	})
	locks, err := lockmw.New(rdb, lockmw.WithReplicas(2, 500*time.Millisecond))
	if err != nil {
		panic(err)
	}
	defer locks.Close()

	_, hold, err := locks.Lock(context.Background(), lockmw.Key("payment", "4711"), lockmw.WithWait(5*time.Second))
	switch {
	case errors.Is(err, lockmw.ErrUnavailable):
		fmt.Println("Redis or one of its replicas did not answer in time:", err)
	case err == nil:
		defer hold.Unlock()
		fmt.Println("both replicas have the lock")
	}
}
