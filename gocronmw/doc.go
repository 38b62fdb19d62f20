// Package gocronmw lets schedulers of gocron 2 on several machines share their jobs: NewLocker makes a lock for each job, and Elect
// chooses the scheduler that runs all of them.
//
//	s, err := gocron.NewScheduler(
//		gocron.WithDistributedLocker(gocronmw.NewLocker(locks, lockmw.WithMinHold(30*time.Second))),
//	)
//
// # What can go wrong
//
// A Locker keeps runs from overlapping, and does not count them. If clocks differ by more than the job takes, or by more than the
// minimum hold, two schedulers run it one after the other. For one run at each time use package cronmw or lockmw.Once.
//
// gocron tells a job neither that its lock nor that its election was lost. A job that has to know takes the lock itself: see
// lockmw.WithLock.
//
// [docs/scheduled.md] has the details.
//
// [docs/scheduled.md]: https://github.com/lockmw/go/blob/main/docs/scheduled.md
package gocronmw
