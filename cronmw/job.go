package cronmw

import (
	"context"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockmw/go/lockmw"
)

// Job returns a job for a cron.Cron that runs at the times of the same schedule, in one of the replicas whose Cron starts a Job with
// the same key and schedule:
//
//	c.Schedule(schedule, cronmw.Job(ctx, locks, "report:nightly", schedule, makeReport, logTick))
//
// It is Run for a service that has a Cron: the results are the same, but the Cron starts the next time while the last one still runs.
// The Job then waits as another replica does. It calls done with ErrNotDue if the Cron has started it at a time that the schedule does
// not have, so begin the schedule with CRON_TZ. ctx has to outlive the Cron.
//
// Job panics with the errors that Run returns before the first time.
func Job(ctx context.Context, locks lockmw.Locker, key string, schedule cron.Schedule, job func(context.Context) error, done Done,
	opts ...lockmw.Option,
) cron.Job {
	if err := check(ctx, locks, key, schedule, job, done, opts); err != nil {
		panic(err)
	}
	return cron.FuncJob(func() {
		now := time.Now()
		at := latest(schedule, now)
		if at.IsZero() {
			done(now, false, ErrNotDue)
			return
		}
		ran, err := lockmw.Once(ctx, locks, key, tick(schedule, at), job, opts...)
		done(at, ran, err)
	})
}

// Wrap is Job for jobs that are written for cron, which have no context and no error: they do not notice that their lock was lost.
//
//	once := cronmw.Wrap(ctx, locks, "report:nightly", schedule, logTick)
//	c.Schedule(schedule, cron.NewChain(cron.Recover(logger), once).Then(report))
func Wrap(ctx context.Context, locks lockmw.Locker, key string, schedule cron.Schedule, done Done, opts ...lockmw.Option) cron.JobWrapper {
	return func(j cron.Job) cron.Job {
		return Job(ctx, locks, key, schedule, func(context.Context) error { j.Run(); return nil }, done, opts...)
	}
}
