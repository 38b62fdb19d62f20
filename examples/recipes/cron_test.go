package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/go/examples/recipes/cronlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func nightly(ctx context.Context, locks lockmw.Locker, makeReport func(context.Context) error, logTick func(time.Time, bool, error)) error {
	schedule, err := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
	if err != nil {
		return err
	}
	return cronlock.Run(ctx, locks, "report:nightly", schedule, makeReport, logTick)
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
	loop.Go(func() { _ = cronlock.Run(jobs, locks, "report:nightly", schedule, makeReport, logTick) })

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

func Example_cron() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond) // in a service: until it ends
	defer cancel()
	err := nightly(ctx, lockmw.NewLocal(),
		func(context.Context) error { fmt.Println("report"); return nil },
		func(at time.Time, ran bool, err error) { fmt.Println(at, ran, err) })
	fmt.Println(err)
	// Output: context deadline exceeded
}

// replicas runs some replicas of a job for a while. It returns the times of the runs, and how often a replica found the job done.
func replicas(t *testing.T, expression string, length, takes time.Duration) (ran []time.Time, done int) {
	schedule, err := cron.ParseStandard(expression)
	if err != nil {
		t.Fatal(err)
	}
	locks := lockmw.NewLocal()
	ctx, cancel := context.WithTimeoutCause(t.Context(), length, errors.New("the end"))
	defer cancel()
	var mu sync.Mutex
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() {
			err := cronlock.Run(ctx, locks, "report:nightly", schedule, func(context.Context) error {
				time.Sleep(takes)
				return nil
			}, func(at time.Time, here bool, err error) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(at, err)
				case here:
					ran = append(ran, at.UTC())
				default:
					done++
				}
			})
			if err == nil || err.Error() != "the end" {
				t.Error(err)
			}
		})
	}
	work.Wait()
	return ran, done
}

func TestACronJobRunsAtEachTimeInOneReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // starts at midnight UTC of 2000-01-01
		ran, done := replicas(t, "CRON_TZ=Europe/Berlin 30 3 * * *", 72*time.Hour, time.Second)
		want := []time.Time{
			time.Date(2000, 1, 1, 2, 30, 0, 0, time.UTC), time.Date(2000, 1, 2, 2, 30, 0, 0, time.UTC), time.Date(2000, 1, 3, 2, 30, 0, 0, time.UTC),
		}
		if !slices.Equal(ran, want) || done != 6 {
			t.Errorf("ran at %v, and was found done %d times; want %v, 6", ran, done, want)
		}
	})
}

func TestACronJobOfEachMinuteRunsEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if ran, done := replicas(t, "* * * * *", 10*time.Minute+30*time.Second, time.Second); len(ran) != 10 || done != 20 {
			t.Errorf("ran %d times, and was found done %d times; want 10, 20", len(ran), done)
		}
	})
}

// A replica that waits longer for a tick could miss the next one.
func TestAReplicaGivesUpATickHalfwayToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		schedule, err := cron.ParseStandard("* * * * *")
		if err != nil {
			t.Fatal(err)
		}
		locks := lockmw.NewLocal()
		_, hold, err := locks.Lock(t.Context(), "report:nightly") // as if the job ran elsewhere
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		_ = cronlock.Run(ctx, locks, "report:nightly", schedule, func(context.Context) error { return nil }, func(at time.Time, ran bool, err error) {
			if late := time.Since(at); ran || !errors.Is(err, lockmw.ErrBusy) || late != 30*time.Second {
				t.Errorf("%t, %v, %v after the tick; want ErrBusy after 30s", ran, err, late)
			}
			cancel()
		})
	})
}

func TestACronJobThatNeverRunsEnds(t *testing.T) {
	schedule, err := cron.ParseStandard("0 0 30 2 *")
	if err != nil {
		t.Fatal(err)
	}
	if err := cronlock.Run(t.Context(), lockmw.NewLocal(), "k", schedule, nil, nil); !errors.Is(err, cronlock.ErrNoNext) {
		t.Errorf("%v, want ErrNoNext", err)
	}
}
