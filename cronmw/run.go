package cronmw

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/go/internal/pause"
	"github.com/lockmw/go/lockmw"
)

// Run runs the job at each time of the schedule, in one of the replicas that call Run with the same key and schedule. It returns
// the cause of ctx when ctx ends, ErrNoNext or ErrConstantDelay, and before the first time lockmw.ErrInvalidKey or
// lockmw.ErrInvalidOption if Once would, or if the schedule or done is nil or Within has no time. After each time it calls done in every replica, with the results of lockmw.Once. The options are those that
// lockmw.Once takes.
//
// A replica may be late by half the time to the next tick, but at most by a minute: until then it waits for a run elsewhere, and
// takes over after a crash. Within changes this.
//
// The replica that runs the job skips a time that passes meanwhile; another one waits, and runs it if the job ends while the tick is
// still due.
func Run(ctx context.Context, locks lockmw.Locker, key string, schedule cron.Schedule, job func(context.Context) error, done Done,
	opts ...lockmw.Option,
) error {
	if err := check(ctx, locks, key, schedule, job, done, opts); err != nil {
		return err
	}
	return runAll(ctx, schedule, wallClock, func(at time.Time) bool {
		ran, err := lockmw.Once(ctx, locks, key, tick(schedule, at), job, opts...)
		done(at, ran, err)
		return ran || err == nil
	})
}

// runAll calls once at each time of the schedule by the clock now. once reports whether the time has been run, here or elsewhere.
// Otherwise the clock may be wrong, and the time still to come.
func runAll(ctx context.Context, schedule cron.Schedule, now func() time.Time, once func(at time.Time) bool) error {
	var last time.Time
	for {
		at, err := await(ctx, schedule, last, now)
		if err != nil {
			return err
		}
		if once(at) {
			last = at
		}
	}
}

// rereadEvery is how often a wait reads the clock.
const rereadEvery = 5 * time.Second

// wallClock returns the time without its monotonic reading, so that differences follow the clock.
func wallClock() time.Time { return time.Now().Round(0) }

// await waits for the next time of the schedule by the clock now, and returns it. The error is ErrNoNext, or the cause of ctx. A single
// timer would not do: it does not follow a step of the clock, and stops while the machine sleeps.
func await(ctx context.Context, schedule cron.Schedule, last time.Time, now func() time.Time) (at time.Time, err error) {
	for read := now(); ; {
		if at.IsZero() || now().Before(read) { // the clock was set back: an earlier time may be the next one
			if at = next(schedule, last, now()); at.IsZero() {
				return at, ErrNoNext
			}
		}
		read = now()
		left := at.Sub(read)
		if left > 0 && pause.For(ctx, min(left, rereadEvery)) {
			continue
		}
		if ctx.Err() != nil {
			return at, context.Cause(ctx)
		}
		if left <= 0 {
			return at, nil
		}
	}
}

// next returns the first time after both now and the last time, because the clock may have been set back.
func next(schedule cron.Schedule, last, now time.Time) time.Time {
	if now.Before(last) {
		now = last
	}
	return schedule.Next(now)
}
