// Package fairlock is the lock that is first come, first served over all goroutines, Clients and
// processes, in the order in which Redis saw their requests.
package fairlock

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/kind"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes fair locks. Safe for concurrent use.
type Locker struct {
	locker locker
}

// locker is what package lockmw makes.
type locker interface {
	lockmw.Locker
	TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error)
}

var _ lockmw.Locker = (*Locker)(nil)

// New returns a Locker on c, which sends nothing yet and ends with c's Close. The options are the
// defaults of its locks, and take precedence over those of c; like the other wrappers it panics if one
// is invalid or c is nil.
func New(c *lockmw.Client, opts ...lockmw.Option) *Locker {
	l, err := kind.New(c, core.Fair, opts)
	if err != nil {
		panic(err)
	}
	return &Locker{l.(locker)}
}

// Lock implements lockmw.Locker.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0): it takes the lock only if nobody has it or waits for it.
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.locker.TryLock(ctx, key, opts...)
}
