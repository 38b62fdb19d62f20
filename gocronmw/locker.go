package gocronmw

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockmw/go/internal/option"
	"github.com/lockmw/go/lockmw"
)

// NewLocker returns a Locker for gocron.WithDistributedLocker: while a job runs, no other scheduler starts a job with the same
// name. The key of the lock is "job:" plus the job's name. A call never waits, because then each scheduler would run the job in turn.
// Useful options are lockmw.WithMinHold, against different clocks, and lockmw.WithMaxHold. l must be exclusive: with a read lock or a
// semaphore, several schedulers would run the job. NewLocker panics if l is nil or an option is invalid.
func NewLocker(l lockmw.Locker, opts ...lockmw.Option) gocron.Locker {
	option.NotNil(l, "gocronmw: NewLocker: the Locker is nil")
	opts = append(slices.Clip(opts), lockmw.WithWait(0))
	if err := lockmw.CheckOptions(l, opts...); err != nil {
		panic(fmt.Errorf("gocronmw: NewLocker: %w", err))
	}
	return locker{l, opts}
}

type locker struct {
	locks   lockmw.Locker
	options []lockmw.Option
}

// Lock implements gocron.Locker. It ignores holds in the context of
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
