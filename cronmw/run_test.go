package cronmw_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/go/cronmw"
	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

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
			err := cronmw.Run(ctx, locks, "report:nightly", schedule, func(context.Context) error {
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
	defer race.OneProcessor()()
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
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		if ran, done := replicas(t, "* * * * *", 10*time.Minute+30*time.Second, time.Second); len(ran) != 10 || done != 20 {
			t.Errorf("ran %d times, and was found done %d times; want 10, 20", len(ran), done)
		}
	})
}

// A replica that waits longer for a tick could miss the next one.
func TestAReplicaGivesUpATickHalfwayToTheNext(t *testing.T) {
	defer race.OneProcessor()()
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
		_ = cronmw.Run(ctx, locks, "report:nightly", schedule, func(context.Context) error { return nil }, func(at time.Time, ran bool, err error) {
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
	if err := cronmw.Run(t.Context(), lockmw.NewLocal(), "k", schedule, noJob, noDone); !errors.Is(err, cronmw.ErrNoNext) {
		t.Errorf("%v, want ErrNoNext", err)
	}
}

func noJob(context.Context) error { return nil }

func noDone(time.Time, bool, error) {}

// Otherwise the process would panic at the first time of the schedule.
func TestMistakesAreRefusedBeforeTheFirstTime(t *testing.T) {
	schedule, err := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
	if err != nil {
		t.Fatal(err)
	}
	for name, given := range map[string]struct {
		schedule cron.Schedule
		job      func(context.Context) error
		done     cronmw.Done
	}{
		"no schedule":           {nil, noJob, noDone},
		"no schedule in Within": {cronmw.Within(time.Minute, nil), noJob, noDone},
		"no job":                {schedule, nil, noDone},
		"no done":               {schedule, noJob, nil},
		"no time in Within":     {cronmw.Within(0, schedule), noJob, noDone},
		"less than none":        {cronmw.Within(-time.Minute, schedule), noJob, noDone},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := usertest.Recovered(func() {
			if err := cronmw.Run(ctx, lockmw.NewLocal(), "k", given.schedule, given.job, given.done); !errors.Is(err, lockmw.ErrInvalidOption) {
				t.Errorf("%s: Run: %v", name, err)
			}
		})
		if err != nil {
			t.Errorf("%s: Run panicked: %v", name, err)
		}
		err = usertest.Recovered(func() { cronmw.Job(ctx, lockmw.NewLocal(), "k", given.schedule, given.job, given.done) })
		if !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("%s: Job: %v", name, err)
		}
	}
}

// What Once refuses would be refused at each time, perhaps at night.
func TestWhatOnceRefusesIsRefusedBeforeTheFirstTime(t *testing.T) {
	schedule, err := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
	if err != nil {
		t.Fatal(err)
	}
	locks := lockmw.NewLocal()
	holding, hold, err := locks.Lock(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Unlock()
	for name, given := range map[string]struct {
		locks    lockmw.Locker
		key      string
		schedule cron.Schedule
		option   lockmw.Option
		want     error
	}{
		"no Locker":        {nil, "k", schedule, lockmw.WithLease(time.Second), lockmw.ErrInvalidOption},
		"no key":           {locks, "", schedule, lockmw.WithLease(time.Second), lockmw.ErrInvalidKey},
		"a held key":       {locks, "held", schedule, lockmw.WithLease(time.Second), lockmw.ErrInvalidOption},
		"an invalid lease": {locks, "k", schedule, lockmw.WithLease(time.Nanosecond), lockmw.ErrInvalidOption},
		"a fixed lease":    {locks, "k", schedule, lockmw.WithFixedLease(time.Second), lockmw.ErrInvalidOption},
		"a long Within":    {locks, "k", cronmw.Within(25*time.Hour, schedule), lockmw.WithLease(time.Second), lockmw.ErrInvalidOption},
	} {
		ctx, cancel := context.WithCancel(holding)
		cancel()
		if err := cronmw.Run(ctx, given.locks, given.key, given.schedule, noJob, noDone, given.option); !errors.Is(err, given.want) {
			t.Errorf("%s: Run: %v", name, err)
		}
		err := usertest.Recovered(func() { cronmw.Job(ctx, given.locks, given.key, given.schedule, noJob, noDone, given.option) })
		if !errors.Is(err, given.want) {
			t.Errorf("%s: Job: %v", name, err)
		}
	}
}

func TestAConstantDelayIsRefused(t *testing.T) {
	every, err := cron.ParseStandard("@every 1h")
	if err != nil {
		t.Fatal(err)
	}
	for _, schedule := range []cron.Schedule{every, cronmw.Within(time.Minute, every)} {
		if err := cronmw.Run(t.Context(), lockmw.NewLocal(), "k", schedule, noJob, noDone); !errors.Is(err, cronmw.ErrConstantDelay) {
			t.Errorf("Run: %v, want ErrConstantDelay", err)
		}
		err := usertest.Recovered(func() { cronmw.Job(t.Context(), lockmw.NewLocal(), "k", schedule, noJob, noDone) })
		if !errors.Is(err, cronmw.ErrConstantDelay) {
			t.Errorf("Job panics with %v, want ErrConstantDelay", err)
		}
	}
}

// Within is for a job that takes longer than a minute: the other replicas wait for it.
func TestALongJobIsAwaited(t *testing.T) {
	defer race.OneProcessor()()
	schedule, err := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
	if err != nil {
		t.Fatal(err)
	}
	for within, want := range map[time.Duration]error{0: lockmw.ErrBusy, 15 * time.Minute: nil} {
		synctest.Test(t, func(t *testing.T) {
			schedule := schedule
			if within > 0 {
				schedule = cronmw.Within(within, schedule)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
			defer cancel()
			locks := lockmw.NewLocal()
			var replicas sync.WaitGroup
			for range 2 {
				replicas.Go(func() {
					_ = cronmw.Run(ctx, locks, "report:nightly", schedule, func(context.Context) error {
						time.Sleep(10 * time.Minute)
						return nil
					}, func(at time.Time, ran bool, err error) {
						if !ran && !errors.Is(err, want) {
							t.Errorf("Within %v: the other replica gets %v, want %v", within, err, want)
						}
					})
				})
			}
			replicas.Wait()
		})
	}
}
