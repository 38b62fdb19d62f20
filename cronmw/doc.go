// Package cronmw runs a job at the times of a robfig/cron schedule, each time in one of several replicas.
//
//	schedule, err := cron.ParseStandard("CRON_TZ=UTC 30 2 * * *")
//	…
//	err = cronmw.Run(ctx, locks, "report:nightly", schedule, makeReport, logTick)
//
// Run is a loop of its own. Job and Wrap are for a service that has a cron.Cron already.
//
// # What can go wrong
//
// If the replica that runs a tick dies, another one runs it again while the tick is due. A tick that passes while no replica is up is
// skipped. A run that returns an error counts as run. See lockmw.Once for the guarantees, and [docs/scheduled.md] for what each
// replica gets.
//
// All replicas have to compute the same times: the schedule needs the same zone everywhere. A constant delay, such as "@every 1h", is
// refused, because it counts from the start of each replica: use lockmw.Once with lockmw.Every.
//
// [docs/scheduled.md]: https://github.com/lockmw/go/blob/main/docs/scheduled.md
package cronmw
