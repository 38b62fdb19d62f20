package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inproc"
	"github.com/lockmw/go/internal/inside"
)

// Local is a Locker within this process that behaves like the ones on Redis. It is for tests of code that
// takes locks, and for programs of one process. It is an RWLocker, first come, first served, and phase-fair
// between readers and writers: a reader waits for a writer that waits, the end of a writer admits all readers
// that wait at that moment, and the end of the last of them admits the next writer. Both sides accept
// WithPlace. Safe for concurrent use; it needs no Close.
//
// A hold has no lease that could run out, unless it is a fixed one. If it was forgotten (see Hold) it stays until another
// call wants its key: that call logs it to slog.Default(), and the hold is lost a lease later. It is noticed at the
// earliest when it is 1 s old.
type Local struct {
	mark
	locks  *inproc.Locks
	writer *kindLocker
	reader *kindLocker
}

var _ RWLocker = (*Local)(nil)

// NewLocal returns a Local with no lock held. The options are the defaults of all its locks; like
// the other wrappers of this package it panics if one is invalid.
func NewLocal(opts ...Option) *Local {
	l := &Local{locks: &inproc.Locks{}}
	side := func(mode core.Mode) *kindLocker {
		locker, err := overLocks(l.locks, core.Kind{Mode: mode, OwnTicket: true}, JoinOptions(opts...))
		if err != nil {
			panic(err)
		}
		return locker
	}
	l.writer, l.reader = side(core.Exclusive), side(core.Read)
	l.mark = inside.NewMark(l, l.writer)
	return l
}

// Lock implements Locker.
func (l *Local) Lock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.made().writer.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0).
func (l *Local) TryLock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.made().writer.TryLock(ctx, key, opts...)
}

// RLocker returns the reading side. Its holds exclude only those of Lock. With a context that holds the key
// for reading, Lock returns ErrUpgrade.
func (l *Local) RLocker() Locker { return l.made().reader }

// Downgrade makes h, which Lock or TryLock returned, a read hold with the same token, and admits waiting
// readers. No writer comes in between. Write holds that are nested in h or around it keep the lock exclusive
// until they are unlocked or downgraded. It returns ErrNotHeld if h was unlocked or is no write hold of this
// Local, and ErrLost if it was lost.
func (l *Local) Downgrade(ctx context.Context, h *Hold) error {
	return l.made().writer.downgrade(ctx, h)
}

// Expire ends all holds of key as lost, as if their leases had run out: their contexts end with cause ErrLost,
// and the next waiter gets the lock.
func (l *Local) Expire(key string) { l.made().locks.Expire(key) }
