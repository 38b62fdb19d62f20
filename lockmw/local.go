package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inproc"
)

// Local is a Locker within this process, with the semantics of the ones on Redis: for the tests of
// code that takes locks, and for programs of one process. It is an RWLocker, first come, first
// served, and phase-fair between readers and writers: who wants to read waits for a writer that
// waits, the end of a writer lets in all who wait to read at that moment, and the end of the last of
// these lets in the next writer. Both sides know WithTicket. Safe for concurrent use; it needs no
// Close.
type Local struct {
	locks  *inproc.Locks
	writer *KindLocker
	reader *KindLocker
}

var _ RWLocker = (*Local)(nil)

// NewLocal returns a Local with no lock held. The options are the defaults of all its locks; like
// the other wrappers of this package it panics if one is invalid.
func NewLocal(opts ...Option) *Local {
	l := &Local{locks: &inproc.Locks{}}
	side := func(mode core.Mode) *KindLocker {
		locker, err := OverLocks(l.locks, core.Kind{Mode: mode, OwnTicket: true}, JoinOptions(opts...))
		if err != nil {
			panic(err)
		}
		return locker
	}
	l.writer, l.reader = side(core.Exclusive), side(core.Read)
	return l
}

// Lock implements Locker.
func (l *Local) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.writer.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0).
func (l *Local) TryLock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.writer.TryLock(ctx, key, opts...)
}

// RLocker returns the reading side: its holds exclude only those of Lock. With a context that holds
// the key for reading, Lock returns ErrUpgrade.
func (l *Local) RLocker() Locker { return l.reader }

// Downgrade makes h, which Lock or TryLock returned, a hold for reading, with the same token, and lets
// in those who wait to read; no writer comes in between. Holds that are nested in h or around it and
// still write keep the lock exclusive until they are unlocked or downgraded. It returns ErrNotHeld if
// h was unlocked or is no hold of this Local for writing, ErrLost if it was lost.
func (l *Local) Downgrade(ctx context.Context, h *Hold) error { return l.writer.downgrade(ctx, h) }

// Expire loses all holds of key, as a lease that ran out does: their contexts end with cause
// ErrLost, and whoever is next gets the lock.
func (l *Local) Expire(key string) { l.locks.Expire(key) }
