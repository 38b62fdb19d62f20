package cronmw_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/go/cronmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func nightly(ctx context.Context, locks lockmw.Locker, makeReport func(context.Context) error, logTick func(time.Time, bool, error)) error {
	schedule, err := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
	if err != nil {
		return err
	}
	return cronmw.Run(ctx, locks, "report:nightly", schedule, makeReport, logTick)
}

func logTick(at time.Time, ran bool, err error) {
	switch {
	case err != nil:
		slog.Error("nightly report", "at", at, "ran_here", ran, "error", err)
	case ran:
		slog.Info("nightly report", "at", at)
	}
}

// untilSignal lets a job that runs come to its end when ctx ends.
func untilSignal(ctx context.Context, locks *lockmw.Client, schedule cron.Schedule, makeReport func(context.Context) error,
	logTick func(time.Time, bool, error),
) error {
	jobs, stop := context.WithCancel(context.WithoutCancel(ctx)) // does not end with ctx
	var loop sync.WaitGroup
	loop.Go(func() { _ = cronmw.Run(jobs, locks, "report:nightly", schedule, makeReport, logTick) })

	<-ctx.Done() // SIGTERM
	end, cancel := context.WithTimeout(jobs, 10*time.Minute)
	defer cancel()
	err := locks.Shutdown(end) // starts no more jobs, and waits for the one that runs here
	stop()
	loop.Wait()
	return err
}

func TestAJobThatRunsComesToItsEndAfterTheSignal(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		schedule, err := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
		if err != nil {
			t.Fatal(err)
		}
		ctx, signal := context.WithCancel(t.Context())
		var ran []bool
		err = untilSignal(ctx, usertest.Client(t, s), schedule, func(ctx context.Context) error {
			signal()
			time.Sleep(5 * time.Minute)
			return ctx.Err()
		}, func(at time.Time, here bool, err error) {
			logTick(at, here, err)
			if err != nil {
				t.Error(at, err)
			}
			ran = append(ran, here)
		})
		if err != nil || !slices.Equal(ran, []bool{true}) {
			t.Errorf("Shutdown: %v; ran: %v, want once, here", err, ran)
		}
	})
}

func ExampleRun() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond) // in a service: until it ends
	defer cancel()
	err := nightly(ctx, lockmw.NewLocal(),
		func(context.Context) error { fmt.Println("report"); return nil },
		func(at time.Time, ran bool, err error) { fmt.Println(at, ran, err) })
	fmt.Println(err)
	// Output: context deadline exceeded
}

// For a service that has a Cron already.
func ExampleJob() {
	ctx, locks := context.Background(), lockmw.NewLocal()
	makeReport := func(context.Context) error { return nil }
	c := cron.New()
	schedule, err := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
	if err != nil {
		panic(err)
	}

	c.Schedule(schedule, cronmw.Job(ctx, locks, "report:nightly", schedule, makeReport, logTick))

	fmt.Println(len(c.Entries()))
	// Output: 1
}

// The other replicas wait for a job that takes longer than a minute.
func ExampleWithin() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	locks := lockmw.NewLocal()
	makeReport := func(context.Context) error { return nil }
	nightly := func(schedule cron.Schedule) error {
		return cronmw.Run(ctx, locks, "report:nightly", cronmw.Within(15*time.Minute, schedule), makeReport, logTick)
	}
	schedule, _ := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
	fmt.Println(nightly(schedule))
	// Output: context deadline exceeded
}
