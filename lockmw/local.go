package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inproc"
	"github.com/lockmw/go/internal/inside"
)

// Local is a Locker within this process that behaves like the Lockers on Redis. It is for tests of code that takes locks, and
// for programs of one process. Locks are granted first come, first served. It is an RWLocker whose readers and writers take
// turns: a reader waits for a writer that waits, the end of a writer admits all readers that wait at that moment, and the end
// of the last of them admits the next writer. Both sides accept WithPlace. Safe for concurrent use; it needs no Close.
//
// A hold has no lease that could expire, except with WithFixedLease. A forgotten hold (see Hold) stays until another call wants
// its key: that call logs it to slog.Default(), and the hold is lost a lease later. A hold is not found to be forgotten
// before it is 1 s old.
type Local struct {
	mark
	locks  *inproc.Locks
	writer *kindLocker
	reader *kindLocker
}

var _ RWLocker = (*Local)(nil)

// NewLocal returns a Local. The options are the defaults of all its locks. Like the wrappers of this package, NewLocal panics
// if an option is invalid.
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

// TryLock is Lock with WithWait(0): it does not wait for other holders.
func (l *Local) TryLock(ctx context.Context, key string, opts ...Option) (context.Context, *Hold, error) {
	return l.made().writer.TryLock(ctx, key, opts...)
}

// RLocker returns the Locker for reading. Its holds exclude only the holds of Lock and TryLock, which write. With a context that
// holds the key for reading, Lock returns ErrUpgrade.
func (l *Local) RLocker() Locker { return l.made().reader }

// Downgrade turns h, a hold from Lock or TryLock, into a read hold with the same token, and admits waiting readers. No writer
// gets the lock in between. Write holds that are nested in h or around it keep the lock exclusive until they are unlocked or
// downgraded. Downgrade returns ErrNotHeld if h was unlocked or is not a write hold of this Local, and ErrLost if it was lost.
func (l *Local) Downgrade(ctx context.Context, h *Hold) error {
	return l.made().writer.Downgrade(ctx, h)
}

// Expire ends all holds of key as lost, as if their leases had expired: their contexts end with cause ErrLost, and the next
// waiter gets the lock. It is for tests.
func (l *Local) Expire(key string) { l.made().locks.Expire(key) }
