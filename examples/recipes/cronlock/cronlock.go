// Package cronlock runs a job at the times of a cron expression, each time in one of several replicas. Copy it;
// docs/scheduled.md lists its limits.
package cronlock

import (
	"context"
	"errors"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/go/lockmw"
)

// ErrNoNext means that the schedule has no further time, such as February 30.
var ErrNoNext = errors.New("cronlock: the schedule has no further time")

// Run runs the job at each time of the schedule, in one of the replicas that call Run with the same key and schedule. It returns
// the cause of ctx when ctx ends, or ErrNoNext. After each time it calls done in every replica, with the results of lockmw.Once.
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

// next returns the first time after both now and the last time, because the clock may have been set back. Round removes the
// monotonic reading of now, so that the wait follows the wall clock.
func next(schedule cron.Schedule, last time.Time) time.Time {
	now := time.Now().Round(0)
	if now.Before(last) {
		now = last
	}
	return schedule.Next(now)
}

// tick returns the tick of a time. A replica may be late by half the time to the next tick, but at most by a minute.
func tick(schedule cron.Schedule, at time.Time) lockmw.Tick {
	t := lockmw.At(at)
	if half := schedule.Next(at).Sub(at) / 2; half > 0 && half < time.Minute {
		t.Within = half
	}
	return t
}
