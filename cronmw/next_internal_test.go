package cronmw

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
)

// A clock that is set back must not repeat a time.
func TestTheNextTimeIsAfterTheLastOne(t *testing.T) {
	hourly, err := cron.ParseStandard("CRON_TZ=UTC 0 * * * *")
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{0, 24 * time.Hour} {
		last := hourly.Next(time.Now().Add(ahead))
		if at := next(hourly, last, time.Now()); !at.After(last) {
			t.Errorf("after %v comes %v", last, at)
		}
	}
}

// A tick that is missed is never run later, so a replica must wake at the time of its clock, whatever happens to that meanwhile.
func TestTheWaitFollowsAStepOfTheClock(t *testing.T) {
	for name, step := range map[string]time.Duration{"forward, or a sleep": 40 * time.Minute, "back": -40 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stepped := time.Now().Add(10 * time.Minute)
				now := func() time.Time {
					if time.Now().Before(stepped) {
						return time.Now()
					}
					return time.Now().Add(step)
				}
				hourly, err := cron.ParseStandard("CRON_TZ=UTC 0 * * * *")
				if err != nil {
					t.Fatal(err)
				}
				at, err := await(t.Context(), hourly, time.Time{}, now)
				if err != nil {
					t.Errorf("the wait ended with %v", err)
				}
				if late := now().Sub(at); late < 0 || late > rereadEvery {
					t.Errorf("the job starts %v after its time", late)
				}
			})
		})
	}
}

// aheadFor returns a clock that is 8 h ahead for that time from now.
func aheadFor(d time.Duration) func() time.Time {
	correct := time.Now().Add(d)
	return func() time.Time {
		if time.Now().Before(correct) {
			return time.Now().Add(8 * time.Hour)
		}
		return time.Now()
	}
}

// A machine starts with a clock that is hours ahead, and corrects it. The times that it had taken for past are still to come.
func TestTheNextTimeIsChosenAgainAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hourly, err := cron.ParseStandard("CRON_TZ=UTC 30 * * * *")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now() // midnight
		now := aheadFor(time.Minute)
		at, err := await(t.Context(), hourly, time.Time{}, now)
		if want := began.Add(30 * time.Minute); err != nil || !at.Equal(want) || time.Since(began) > 30*time.Minute+rereadEvery {
			t.Errorf("%v, %v after %v; want %v", at, err, time.Since(began), want)
		}
	})
}

// Such a machine may try to run a time before that. Redis refuses it, and the time is still to come.
func TestNoTimeIsSkippedAfterOneThatWasNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hourly, err := cron.ParseStandard("CRON_TZ=UTC 30 * * * *")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now() // midnight
		now := aheadFor(40 * time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var tried []time.Duration
		_ = runAll(ctx, hourly, now, func(at time.Time) bool {
			if tried = append(tried, at.Sub(began)); len(tried) == 2 {
				cancel()
			}
			return !now().After(time.Now())
		})
		if want := []time.Duration{8*time.Hour + 30*time.Minute, 90 * time.Minute}; !slices.Equal(tried, want) {
			t.Errorf("tried %v, want %v", tried, want)
		}
	})
}
