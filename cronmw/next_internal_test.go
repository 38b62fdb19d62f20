package cronmw

import (
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
		if at := next(hourly, last); !at.After(last) {
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
				at := now().Add(time.Hour)
				if !await(t.Context(), at, now) {
					t.Error("the wait ended with its context")
				}
				if late := now().Sub(at); late < 0 || late > rereadEvery {
					t.Errorf("the job starts %v after its time", late)
				}
			})
		})
	}
}
