// Package gocronlock lets schedulers of gocron on several machines share jobs. Copy it; docs/scheduled.md lists its limits.
package gocronlock

import (
	"context"
	"slices"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmw/go/lockmw"
)

// New returns a Locker for gocron.WithDistributedLocker: while a job runs, no other scheduler starts a job with the same
// name. It never waits, because then each scheduler would run the job in turn. Useful options are lockmw.WithMinHold,
// against different clocks, and lockmw.WithMaxHold. l must be exclusive: with a read lock or a semaphore, several schedulers
// would run the job.
func New(l lockmw.Locker, opts ...lockmw.Option) gocron.Locker {
	return locker{l, append(slices.Clip(opts), lockmw.WithWait(0))}
}

type locker struct {
	locks   lockmw.Locker
	options []lockmw.Option
}

// Lock implements gocron.Locker. The key of the lock is "job:" plus the job's name. It ignores holds in the context of
// gocron.WithContext, so that runs of the job do not share one.
func (l locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	_, hold, err := l.locks.Lock(lockmw.WithoutHolds(ctx), lockmw.Key("job", job), l.options...)
	if err != nil {
		return nil, err
	}
	return lock{hold}, nil
}

type lock struct{ hold *lockmw.Hold }

// Unlock implements gocron.Lock.
func (l lock) Unlock(context.Context) error { return l.hold.Unlock() }
