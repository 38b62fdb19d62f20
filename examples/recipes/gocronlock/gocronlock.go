// Package gocronlock lets schedulers of gocron on several machines share jobs. Copy it; what it does not promise is in
// docs/scheduled.md.
package gocronlock

import (
	"context"
	"slices"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmw/go/lockmw"
)

// New returns a Locker for gocron.WithDistributedLocker: while a job runs, no other scheduler begins the job of that
// name. It never waits, because the job would then run again, once for each scheduler. Options may be
// lockmw.WithMinHold, against clocks that differ, and lockmw.WithMaxHold. l has to exclude all others: with a lock for
// reading or a semaphore several schedulers run the job.
func New(l lockmw.Locker, opts ...lockmw.Option) gocron.Locker {
	return locker{l, append(slices.Clip(opts), lockmw.WithWait(0))}
}

type locker struct {
	locks   lockmw.Locker
	options []lockmw.Option
}

// Lock implements gocron.Locker. The key of the lock is job: and the job's name. Runs of the job do not share a hold of the
// context that gocron.WithContext has given them.
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
