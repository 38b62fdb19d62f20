// Package fairlock grants a lock in strict order: first come, first served, over all goroutines, Clients and processes. The order
// is that in which Redis saw the calls.
//
//	fair := fairlock.New(locks) // a *lockmw.Client
//	ctx, hold, err := fair.Lock(ctx, lockmw.Key("item", id))
//
// Otherwise it is the plain lock. With the plain lock the calls of one process share a place in the queue, and pass the lock on to
// one another for a while without a command. With the fair lock each call has its own place. The lock is passed on without a
// command only to the next calls in the queue, and only within one process. An option that changes how their holds end, such as
// WithMinHold or WithMaxHold, prevents it. Plain, fair and read-write locks of one key exclude one another. See [docs/locks.md].
//
// # Order
//
// Redis numbers the calls as they arrive; clients' clocks do not matter. A call that gives up leaves the queue immediately. A call
// whose process has died is removed when its turn comes, but not earlier than 4 s after the process was last seen. If its turn comes
// sooner, it may be granted the lock, and the next call gets the lock 3 s later. The order of the other calls stays the same. A
// nested Lock of a key that the context holds does not wait.
//
// The callbacks Contended and Waiting of a lockmw.Observer report a call's position and the length of the queue.
//
// With lockmw.WithPlace a call that gave up, such as a task that was put back, continues from its place the next time. If the place
// is ahead of calls that pass the lock on to one another, up to 31 of them may hold it first, until a message has told their process
// about the call.
//
// [docs/locks.md]: https://github.com/lockmw/go/blob/main/docs/locks.md
package fairlock

import (
	"context"
	"log/slog"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes fair locks. It returns the same errors as lockmw.Client. It is safe for concurrent use.
type Locker struct {
	mark
	locker kinds.Locker
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ lockmw.Locker = (*Locker)(nil)

// New returns a Locker over the locks of c. It sends no command. The options are the defaults of its locks and take precedence over
// the defaults of c. The Locker needs no Close; it is closed with c. New panics if an option is invalid or c is nil.
func New(c *lockmw.Client, opts ...lockmw.Option) *Locker { return over(c, opts) }

// NewLocal is New for locks within this process, for tests and for programs of one process. They exclude the other locks of l.
func NewLocal(l *lockmw.Local, opts ...lockmw.Option) *Locker { return over(l, opts) }

func over(locks lockmw.Locker, opts []lockmw.Option) *Locker {
	l := &Locker{locker: kinds.New(locks, core.Kind{Mode: core.Fair, OwnTicket: true}, opts...)}
	l.mark = inside.NewMark(l, l.locker)
	return l
}

// Lock takes the lock. It implements lockmw.Locker.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0). It takes the lock only if no call holds the key or waits for it.
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.TryLock(ctx, key, opts...)
}

// Logger returns the Client's logger: see lockmw.Client.
func (l *Locker) Logger() *slog.Logger { return l.made().locker.Logger() }

// made returns l, and panics if New or NewLocal did not make it.
func (l *Locker) made() *Locker {
	if l == nil || l.locker == nil {
		panic("fairlock: the Locker is nil, or was not made by New or NewLocal")
	}
	return l
}
