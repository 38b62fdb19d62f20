// Package fairlock is a lock that is first come, first served over all goroutines, Clients and processes,
// in the order in which Redis saw their requests.
//
//	fair := fairlock.New(locks) // a *lockmw.Client
//	ctx, hold, err := fair.Lock(ctx, lockmw.Key("item", id))
//
// It is the plain lock with one difference. There the calls of one process stand in the queue together
// and pass the lock on among themselves for a while, which takes no command. Here each call has a place
// of its own and each hand-over goes through Redis, which orders the calls by a sequence and looks at
// no client's clock. A call that gives up leaves the queue at once, and one whose process has died does
// so after about 2.5 s when its turn comes; the order of the others stays as it is. A nested Lock of a
// key that the context holds waits for nobody.
//
// A call learns its position and the length of the queue from the callbacks Contended and Waiting of a
// lockmw.Observer. With lockmw.WithPlace a call that gave up, such as a task that was put back,
// continues from its place the next time.
//
// Plain, fair and read-write locks of one key exclude one another.
package fairlock

import (
	"context"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes fair locks. Its errors are those of lockmw.Client. Safe for concurrent use.
type Locker struct {
	locker *lockmw.KindLocker
}

var _ lockmw.Locker = (*Locker)(nil)

// New returns a Locker on c, which sends nothing yet and ends with c's Close. The options are the
// defaults of its locks, and take precedence over those of c; like the other wrappers it panics if one
// is invalid or c is nil.
func New(c *lockmw.Client, opts ...lockmw.Option) *Locker {
	l, err := c.OfKind(core.Kind{Mode: core.Fair, OwnTicket: true}, opts...)
	if err != nil {
		panic(err)
	}
	return &Locker{l}
}

// Lock implements lockmw.Locker.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0): it takes the lock only if nobody has it or waits for it.
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.locker.TryLock(ctx, key, opts...)
}
