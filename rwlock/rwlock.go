// Package rwlock is a read-write lock in the shape of sync.RWMutex: many read or one writes. It is
// phase-fair: neither readers nor writers starve.
package rwlock

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/kind"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes locks for writing and for reading. Safe for concurrent use.
type Locker struct {
	writer, reader locker
}

// locker is what package lockmw makes.
type locker interface {
	lockmw.Locker
	TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error)
	Downgrade(ctx context.Context, h *lockmw.Hold) error
}

var _ lockmw.RWLocker = (*Locker)(nil)

// ErrUpgrade is what Lock returns if its context holds the key for reading: two readers that both
// upgrade would wait for each other for ever. Unlock the read hold first, or take the lock for writing
// from the beginning and Downgrade it.
var ErrUpgrade = lockmw.ErrUpgrade

// New returns a Locker on c, which sends nothing yet and ends with c's Close. The options are the
// defaults of its locks, and take precedence over those of c; like the other wrappers it panics if one
// is invalid or c is nil.
func New(c *lockmw.Client, opts ...lockmw.Option) *Locker {
	side := func(mode core.Mode) locker {
		l, err := kind.New(c, mode, opts)
		if err != nil {
			panic(err)
		}
		return l.(locker)
	}
	return &Locker{writer: side(core.Write), reader: side(core.Read)}
}

// Lock takes the lock for writing: nobody else reads or writes meanwhile.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.writer.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0).
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.writer.TryLock(ctx, key, opts...)
}

// RLock takes the lock for reading: others may read meanwhile, and nobody writes.
func (l *Locker) RLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.reader.Lock(ctx, key, opts...)
}

// TryRLock is RLock with WithWait(0): ErrBusy if somebody writes, or waits to.
func (l *Locker) TryRLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.reader.TryLock(ctx, key, opts...)
}

// RLocker returns the reading side as a Locker, whose Lock is RLock.
func (l *Locker) RLocker() lockmw.Locker { return l.reader }

// Downgrade makes h, which Lock or TryLock returned, a hold for reading. No writer comes in between, and
// those who wait to read are let in at once. Holds that are nested in h or around it and still write
// keep the lock exclusive until they are unlocked or downgraded. Unlocking a hold while others of the
// same lock still read downgrades it as well.
//
// It returns ErrNotHeld if h was unlocked or is no hold of l for writing, ErrLost if it was lost, and
// ErrUnavailable if the server did not confirm: h then counts as one for reading, and Downgrade can be
// called again.
func (l *Locker) Downgrade(ctx context.Context, h *lockmw.Hold) error {
	return l.writer.Downgrade(ctx, h)
}
