package lockmw

import (
	"context"
	"log/slog"
	"slices"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inproc"
)

// Local is a Locker within this process, with the semantics of the ones on Redis: for the tests of
// code that takes locks, and for programs of one process. It is an RWLocker, first come, first
// served, and phase-fair between readers and writers. Safe for concurrent use; it needs no Close.
type Local struct {
	locks  *inproc.Locks
	writer locker
	reader locker
}

var _ RWLocker = (*Local)(nil)

// NewLocal returns a Local with no lock held. The options are the defaults of all its locks; like
// the other wrappers of this package it panics if one is invalid.
func NewLocal(opts ...Option) *Local {
	base, err := NewPolicy(opts...)
	if err != nil {
		panic(err)
	}
	l := &Local{locks: &inproc.Locks{}}
	l.writer = locker{
		locks: l.locks, mode: core.Exclusive, base: base,
		unlockTimeout: defaultUnlockTimeout, logger: slog.Default(),
	}
	l.reader = l.writer
	l.reader.mode = core.Read
	return l
}

// Lock implements Locker.
func (l *Local) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.writer.lock(ctx, key, opts)
}

// TryLock is Lock with WithWait(0).
func (l *Local) TryLock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.writer.lock(ctx, key, append(slices.Clip(opts), WithWait(0)))
}

// RLocker returns the reading side: its holds exclude only those of Lock.
func (l *Local) RLocker() Locker { return (*localReader)(l) }

// localReader is the reading side of a Local.
type localReader Local

func (l *localReader) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.reader.lock(ctx, key, opts)
}

// Expire loses all holds of key, as a lease that ran out does: their contexts end with cause
// ErrLost, and the next caller gets the lock.
func (l *Local) Expire(key string) { l.locks.Expire(key) }
