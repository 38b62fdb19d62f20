package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/lockmw"
)

// One replica at a time does the work.
func ExampleLead() {
	ctx, stop := context.WithCancel(context.Background()) // in a program: until SIGTERM
	locks := lockmw.NewLocal()                            // lockmw.New(rdb) with Redis
	err := lockmw.Lead(ctx, locks, "lead:billing", func(ctx context.Context) error {
		hold, _ := lockmw.FromContext(ctx)
		fmt.Println("leads with token", hold.Token())
		stop()
		<-ctx.Done() // it works until then
		return nil
	})
	fmt.Println(err)
	// Output:
	// leads with token 1
	// <nil>
}

// Each replica starts the job by its own clock, and one of them runs it.
func ExampleOnce() {
	ctx := context.Background()
	locks := lockmw.NewLocal()                                    // lockmw.New(rdb) with Redis
	tick := lockmw.Tick{At: time.Now(), Within: 10 * time.Second} // in a program: lockmw.Every(time.Hour)
	for range 3 {                                                 // replicas
		ran, err := lockmw.Once(ctx, locks, "report:hourly", tick, func(context.Context) error {
			fmt.Println("making the report")
			return nil
		})
		fmt.Println("ran here:", ran, err)
	}
	// Output:
	// making the report
	// ran here: true <nil>
	// ran here: false <nil>
	// ran here: false <nil>
}

// A cron job is due at an instant that its scheduler computes. All replicas pass the same instant, and one of them runs the job.
func ExampleAt() {
	ctx := context.Background()
	locks := lockmw.NewLocal() // lockmw.New(rdb) with Redis
	nightly := func(context.Context) error {
		fmt.Println("making the report")
		return nil
	}

	due := time.Now() // in a program: the instant of the schedule, such as 02:30
	for range 2 {     // replicas
		ran, err := lockmw.Once(ctx, locks, "report:nightly", lockmw.At(due), nightly)
		fmt.Println("ran here:", ran, err)
	}

	yesterday := lockmw.At(due.Add(-24 * time.Hour))
	_, err := lockmw.Once(ctx, locks, "report:nightly", yesterday, nightly)
	fmt.Println("too late:", errors.Is(err, lockmw.ErrClockOff))
	// Output:
	// making the report
	// ran here: true <nil>
	// ran here: false <nil>
	// too late: true
}

// Each replica has a ticker, and one of them runs the job in each period. Tickers that fire a little early or late find the same
// tick: the nearest full hour.
func ExampleEvery() {
	ctx := context.Background()
	locks := lockmw.NewLocal() // lockmw.New(rdb) with Redis

	tick := lockmw.Every(time.Hour)
	fmt.Println("a full hour:", tick.At.Equal(tick.At.Truncate(time.Hour)))
	fmt.Println("a run begins within", tick.Within)

	tick.Within = 45 * time.Minute // only here, because this example runs at any time of the hour
	for range 3 {                  // replicas
		ran, err := lockmw.Once(ctx, locks, "cleanup:sessions", tick, func(context.Context) error {
			fmt.Println("cleaning up")
			return nil
		})
		fmt.Println("ran here:", ran, err)
	}
	// Output:
	// a full hour: true
	// a run begins within 1m0s
	// cleaning up
	// ran here: true <nil>
	// ran here: false <nil>
	// ran here: false <nil>
}
