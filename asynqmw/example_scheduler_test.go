package asynqmw_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/lockmw"
)

// Two replicas run the same program. Only the leader has a scheduler. When the leader stops, the other replica takes over.
func ExampleRunScheduler() {
	server, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	redisOpt := asynq.RedisClientOpt{Addr: server.Addr()}
	locks := lockmw.NewLocal() // in production: lockmw.New(rdb)

	terms := make(chan string)
	run := func(ctx context.Context, replica string) error {
		return asynqmw.RunScheduler(ctx, locks, "lead:scheduler", redisOpt,
			func(redisOpt asynq.RedisConnOpt) (asynqmw.Scheduler, error) {
				s := asynq.NewScheduler(redisOpt, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
				_, err := s.Register("@every 1m", asynq.NewTask("report", nil))
				terms <- replica
				return s, err
			})
	}
	start := func(replica string) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- run(ctx, replica) }()
		return func() {
			cancel()
			fmt.Println(replica, "has stopped:", errors.Is(<-ended, context.Canceled))
		}
	}

	stopFirst := start("replica 1")
	fmt.Println(<-terms, "schedules")
	stopSecond := start("replica 2")
	stopFirst()
	fmt.Println(<-terms, "schedules")
	stopSecond()
	// Output:
	// replica 1 schedules
	// replica 1 has stopped: true
	// replica 2 schedules
	// replica 2 has stopped: true
}
