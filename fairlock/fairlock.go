// Package fairlock is a lock that is first come, first served over all goroutines, Clients and processes,
// in the order in which Redis saw their requests.
//
//	fair := fairlock.New(locks) // a *lockmw.Client
//	ctx, hold, err := fair.Lock(ctx, lockmw.Key("item", id))
//
// It is the plain lock with one difference. With the plain lock the calls of one process share a place in the
// queue, and pass the lock on to one another for a while without a command. Here each call has a place of its
// own, and the lock is passed on without a command only to calls of the same process that are the next in the
// queue. It is not if their options end or keep the hold in another way than Unlock does. Redis numbers the calls
// as they arrive; no client's clock matters. A call that gives up leaves the queue at once. A call whose process
// has died is removed when its turn comes, 4 s after the process was last seen at the earliest. If its turn comes
// sooner it may be granted the lock, and the next call has it 3 s later. The order of the others stays as it is.
// A nested Lock of a key that the context holds does not wait.
//
// A call learns its position and the length of the queue from the callbacks Contended and Waiting of a
// lockmw.Observer. With lockmw.WithPlace a call that gave up, such as a task that was put back,
// continues from its place the next time. If that is in front of calls to which the lock is being passed on, up to
// 31 of them may have it first: until their process has heard of the call, which is a message away.
//
// Plain, fair and read-write locks of one key exclude one another.
package fairlock

import (
	"context"
	"log/slog"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes fair locks. Its errors are those of lockmw.Client. Safe for concurrent use.
type Locker struct {
	mark
	locker kinds.Locker
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ lockmw.Locker = (*Locker)(nil)

// New returns a Locker over the locks of c. It sends nothing. The Locker ends when c is closed. The options are
// the defaults of its locks, and take precedence over those of c. New panics if an option is invalid or c is
// nil.
func New(c *lockmw.Client, opts ...lockmw.Option) *Locker { return over(c, opts) }

// NewLocal is New for locks within this process: for tests, and for programs of one process. They exclude the other locks of l.
func NewLocal(l *lockmw.Local, opts ...lockmw.Option) *Locker { return over(l, opts) }

func over(locks lockmw.Locker, opts []lockmw.Option) *Locker {
	l := &Locker{locker: kinds.New(locks, core.Kind{Mode: core.Fair, OwnTicket: true}, opts...)}
	l.mark = inside.NewMark(l, l.locker)
	return l
}

// Lock implements lockmw.Locker.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0): it takes the lock only if the key is neither held nor waited for.
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.TryLock(ctx, key, opts...)
}

// Logger returns the Client's logger: see lockmw.Client.
func (l *Locker) Logger() *slog.Logger { return l.made().locker.Logger() }

// made returns l.
func (l *Locker) made() *Locker {
	if l == nil || l.locker == nil {
		panic("fairlock: the Locker is nil, or was not made by New or NewLocal")
	}
	return l
}
