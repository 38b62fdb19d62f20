// Package cronlock runs a job at the times of a cron expression, each time in one of several replicas. Copy it; what it does
// not promise is in docs/scheduled.md.
package cronlock

import (
	"context"
	"errors"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/go/lockmw"
)

// ErrNoNext says that the schedule has no further time, as that of February 30.
var ErrNoNext = errors.New("cronlock: the schedule has no further time")

// Run runs the job at each time of the schedule, in one of the replicas that call Run for the same key and schedule. It returns
// the cause of ctx when that ends, and ErrNoNext. Each time, done receives what lockmw.Once has returned, in every replica.
//
// All replicas have to compute the same times: the schedule needs the same zone everywhere. The replica that runs the job skips a
// time that passes meanwhile; another one waits, and runs it if the job ends while the tick is still due.
func Run(ctx context.Context, locks lockmw.Locker, key string, schedule cron.Schedule, job func(context.Context) error,
	done func(at time.Time, ran bool, err error), opts ...lockmw.Option,
) error {
	var at time.Time
	for {
		if at = next(schedule, at); at.IsZero() {
			return ErrNoNext
		}
		wait := time.NewTimer(time.Until(at))
		select {
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		case <-wait.C:
		}
		ran, err := lockmw.Once(ctx, locks, key, tick(schedule, at), job, opts...)
		done(at, ran, err)
	}
}

// next returns the first time after now and after the last one: the clock may have been set back. Now has no monotonic
// reading, so that the wait is by the wall clock.
func next(schedule cron.Schedule, last time.Time) time.Time {
	now := time.Now().Round(0)
	if now.Before(last) {
		now = last
	}
	return schedule.Next(now)
}

// tick returns the tick of a time. A replica may be late by half the time to the next one, and by a minute at most.
func tick(schedule cron.Schedule, at time.Time) lockmw.Tick {
	t := lockmw.At(at)
	if half := schedule.Next(at).Sub(at) / 2; half > 0 && half < time.Minute {
		t.Within = half
	}
	return t
}
