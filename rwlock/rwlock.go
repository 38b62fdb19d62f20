// Package rwlock is a read-write lock in the shape of sync.RWMutex: many read at a time, or one writes.
//
//	rw := rwlock.New(locks) // a *lockmw.Client
//	ctx, hold, err := rw.RLock(ctx, lockmw.Key("item", id))
//
// It is phase-fair, after Brandenburg and Anderson, "Reader-Writer Synchronization for Shared-Memory
// Multiprocessor Real-Time Systems" (2009): phases of readers and of one writer take turns as long as
// both wait. Readers that come while a writer waits queue behind it. The writer's release admits all readers
// that wait at that moment, and the end of their phase admits one writer, in the order of their calls. So a
// writer waits for at most one phase of readers before it is its or another writer's turn, a reader waits for
// at most one writer, and neither side starves. Writers of one process that are next to each other in the queue pass the
// lock on by themselves until their process has heard of the reader, which is a message away; they are 32 at most.
//
// Readers of one process with the same lease and maximum hold share one hold in Redis. While no writer waits,
// joining it takes no command. Whether a writer waits is known from the last answer of Redis, for at most
// 100 ms, or from a message. So a reader may still join up to 100 ms after a writer of another process has
// queued. Each hold in Redis expires by itself: a reader that dies delays a writer by its own lease, and no
// longer.
//
// # Nesting
//
// A context that holds the key can take it again at once: for reading while it reads, and for both while it
// writes. Lock with a context that only reads is refused with lockmw.ErrUpgrade. The reverse is Downgrade, with no
// writer in between. The lock is exclusive until the last write hold is unlocked, in whatever order the holds
// are unlocked.
//
// # Tokens
//
// Every writer has a greater token than all holds before it. A reader has the token of the writer before
// it, or a greater one that is less than the next writer's: a store that refuses smaller tokens refuses
// what was computed from an older state. After a restart of Redis from an old snapshot a reader's token may be
// older than the snapshot, until the next write; such a store refuses what it writes.
//
// Plain, fair and read-write locks of one key exclude one another; plain and fair ones count as writers.
package rwlock

import (
	"context"
	"log/slog"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes locks for writing and for reading. Its errors are those of lockmw.Client. Safe for
// concurrent use.
type Locker struct {
	mark
	writer, reader kinds.Locker
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ lockmw.RWLocker = (*Locker)(nil)

// New returns a Locker over the locks of c. It sends nothing. The Locker ends when c is closed. The options are
// the defaults of its locks, and take precedence over those of c. New panics if an option is invalid or c is
// nil.
func New(c *lockmw.Client, opts ...lockmw.Option) *Locker { return over(c, opts) }

// NewLocal is New for locks within this process: for tests, and for programs of one process. They exclude the other locks of l.
func NewLocal(l *lockmw.Local, opts ...lockmw.Option) *Locker { return over(l, opts) }

func over(locks lockmw.Locker, opts []lockmw.Option) *Locker {
	l := &Locker{
		writer: kinds.New(locks, core.Kind{Mode: core.Write}, opts...),
		reader: kinds.New(locks, core.Kind{Mode: core.Read}, opts...),
	}
	l.mark = inside.NewMark(l, l.writer)
	return l
}

// Lock takes the lock for writing: nobody else reads or writes meanwhile.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().writer.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0).
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().writer.TryLock(ctx, key, opts...)
}

// RLock takes the lock for reading: others may read meanwhile, and nobody writes.
func (l *Locker) RLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().reader.Lock(ctx, key, opts...)
}

// TryRLock is RLock with WithWait(0): ErrBusy if somebody writes, or waits to.
func (l *Locker) TryRLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().reader.TryLock(ctx, key, opts...)
}

// RLocker returns the reading side as a Locker, whose Lock is RLock.
func (l *Locker) RLocker() lockmw.Locker { return l.made().reader }

// Downgrade makes h, which Lock or TryLock returned, a hold for reading. No writer comes in between, and
// those who wait to read are let in at once. Holds that are nested in h or around it and still write
// keep the lock exclusive until they are unlocked or downgraded. Unlocking a hold while others of the
// same lock still read downgrades it as well.
//
// Downgrade waits for a server that cannot answer now, until ctx or the hold ends.
//
// It returns ErrNotHeld if h was unlocked or is no hold of l for writing, ErrLost if it was lost, and
// ErrUnavailable if the server refused or ctx ended first: h then counts as one for reading, and Downgrade can be
// called again.
func (l *Locker) Downgrade(ctx context.Context, h *lockmw.Hold) error {
	return l.made().writer.Downgrade(ctx, h)
}

// Logger returns the Client's logger: see lockmw.Client.
func (l *Locker) Logger() *slog.Logger { return l.made().writer.Logger() }

// made returns l.
func (l *Locker) made() *Locker {
	if l == nil || l.writer == nil {
		panic("rwlock: the Locker is nil, or was not made by New or NewLocal")
	}
	return l
}
