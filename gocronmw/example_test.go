package gocronmw_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/gocronmw"
	"github.com/lockmw/go/lockmw"
)

func ExampleNewLocker() {
	locks := lockmw.NewLocal()
	ran := make(chan struct{}, 1)
	makeReport := func(context.Context, string) error { ran <- struct{}{}; return nil }
	schedule := func() error {
		s, err := gocron.NewScheduler(
			gocron.WithDistributedLocker(gocronmw.NewLocker(locks, lockmw.WithMinHold(30*time.Second))),
		)
		if err != nil {
			return err
		}
		_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(makeReport, "sales"), gocron.WithName("sales-report"),
			gocron.WithStartAt(gocron.WithStartImmediately()))
		if err != nil {
			return err
		}
		s.Start()
		<-ran
		return s.Shutdown()
	}
	fmt.Println(schedule())
	// Output: <nil>
}

// A scheduler that moves from gocron-redis-lock also takes its mutex.
func ExampleNewLocker_bridge() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	client, err := lockmw.New(rdb)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	mutexOf := func(key string) string {
		job, err := url.PathUnescape(strings.TrimPrefix(key, "job:"))
		if err != nil {
			return key // not a job's
		}
		return "cron:" + job // "cron:" is WithKeyPrefix
	}
	locker := gocronmw.NewLocker(bridge.SetNX(client, rdb, mutexOf))

	lock, err := locker.Lock(context.Background(), "mail:daily")
	fmt.Println(server.Keys()[0], err)
	fmt.Println(lock.Unlock(context.Background()))
	// Output:
	// cron:mail:daily <nil>
	// <nil>
}

func ExampleElect() {
	ctx, locks := context.Background(), lockmw.NewLocal()
	ran := make(chan struct{}, 1)
	schedule := func() error {
		elector := gocronmw.Elect(ctx, locks, "lead:cron")
		s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
		if err != nil {
			return err
		}
		defer elector.Close()
		_, err = s.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(func() {
			select {
			case ran <- struct{}{}:
			default:
			}
		}))
		if err != nil {
			return err
		}
		s.Start()
		<-ran
		return s.Shutdown()
	}
	fmt.Println(schedule())
	// Output: <nil>
}

func Example_insideTheJob() {
	locks := lockmw.NewLocal()
	makeReport := func(ctx context.Context, of string) error {
		_, err := lockmw.Held(ctx, "job:sales-report")
		return err
	}

	report := lockmw.WithLock(locks, lockmw.Const[string]("job", "sales-report"), makeReport)
	task := gocron.NewTask(report, "sales") // a func(context.Context, string) error

	fmt.Println(task != nil, report(context.Background(), "sales"))
	// Output: true <nil>
}
