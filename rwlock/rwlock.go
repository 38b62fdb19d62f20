// Package rwlock lets many callers read a key at a time, or one write it: a read-write lock in the style of sync.RWMutex, over all
// goroutines, Clients and processes.
//
//	rw := rwlock.New(locks) // a *lockmw.Client
//	ctx, hold, err := rw.RLock(ctx, lockmw.Key("item", id))
//
// Plain, fair and read-write locks of one key exclude one another; plain and fair locks count as writers. See [docs/locks.md].
//
// # Order
//
// The lock is phase-fair, after Brandenburg and Anderson, "Reader-Writer Synchronization for Shared-Memory Multiprocessor Real-Time
// Systems" (2009): phases of readers and phases of one writer alternate while both wait. Readers that arrive while a writer waits
// queue behind it. The writer's release admits all readers that wait at that moment. The end of their phase admits one writer, in
// the order of the calls. So a writer waits for at most one phase of readers before a writer's turn comes, a reader waits for at
// most one writer, and neither side starves.
//
// Neighbouring writers of one process may pass the lock on to one another ahead of a reader, until a message has told their process
// about the reader, but at most 32 of them.
//
// Readers of one process with the same lease and maximum hold share one hold in Redis. While no writer waits, a reader joins it
// without a command. The process learns from a message that a writer waits. The last answer of Redis counts for at most 100 ms, so
// a reader may still join up to 100 ms after a writer of another process has queued. Each hold in Redis has its own lease: a reader
// that dies delays a writer for at most that lease.
//
// # Nesting
//
// A nested call with the context of a hold of the same key succeeds immediately: RLock within a read lock, and RLock and Lock within
// a write lock. Lock within a read lock fails with lockmw.ErrUpgrade. Downgrade turns a write lock into a read lock, with no writer
// in between. The lock stays exclusive until the last write hold is unlocked, whatever the order in which holds are unlocked.
//
// # Tokens
//
// Every writer has a greater token than all holds before it. A reader has the token of the writer before it, or a greater one that
// is less than the next writer's. So a store that refuses smaller tokens refuses results that were computed from an older state.
// After Redis has restarted from an old snapshot, a reader's token may be older than the snapshot until the next write; such a store
// then refuses the reader's writes.
//
// [docs/locks.md]: https://github.com/lockmw/go/blob/main/docs/locks.md
package rwlock

import (
	"context"
	"log/slog"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/lockmw"
)

// A Locker takes write locks and read locks. It returns the same errors as lockmw.Client. It is safe for concurrent use.
type Locker struct {
	mark
	writer, reader kinds.Locker
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ lockmw.RWLocker = (*Locker)(nil)

// New returns a Locker over the locks of c. It sends no command. The options are the defaults of its locks and take precedence over
// the defaults of c. The Locker needs no Close; it is closed with c. New panics if an option is invalid or c is nil.
func New(c *lockmw.Client, opts ...lockmw.Option) *Locker { return over(c, opts) }

// NewLocal is New for locks within this process, for tests and for programs of one process. They exclude the other locks of l.
func NewLocal(l *lockmw.Local, opts ...lockmw.Option) *Locker { return over(l, opts) }

func over(locks lockmw.Locker, opts []lockmw.Option) *Locker {
	l := &Locker{
		writer: kinds.New(locks, core.Kind{Mode: core.Write}, opts...),
		reader: kinds.New(locks, core.Kind{Mode: core.Read}, opts...),
	}
	l.mark = inside.NewMark(l, l.writer)
	return l
}

// Lock takes the lock for writing: no other caller reads or writes while it is held.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().writer.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0): it tries once, and returns ErrBusy if the lock is not free.
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().writer.TryLock(ctx, key, opts...)
}

// RLock takes the lock for reading: other callers may read, but not write, while it is held.
func (l *Locker) RLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().reader.Lock(ctx, key, opts...)
}

// TryRLock is RLock with WithWait(0). It returns ErrBusy if a writer holds the key or waits for it.
func (l *Locker) TryRLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().reader.TryLock(ctx, key, opts...)
}

// RLocker returns the reading side as a Locker, whose Lock is RLock.
func (l *Locker) RLocker() lockmw.Locker { return l.made().reader }

// Downgrade turns h, which Lock or TryLock returned, into a hold for reading. No writer gets the lock in between, and waiting
// readers get it immediately. Other write holds of the same lock, nested in h or around it, keep the lock exclusive until they are
// unlocked or downgraded. Unlocking the last write hold while read holds of the same lock remain also downgrades the lock.
//
// While the server does not answer, Downgrade waits until ctx or the hold ends.
//
// It returns ErrNotHeld if h was unlocked or is not a write hold of l, and ErrLost if h was lost. It returns ErrUnavailable if the
// server refused or ctx ended first: h then counts as a read hold, and Downgrade can be called again.
func (l *Locker) Downgrade(ctx context.Context, h *lockmw.Hold) error {
	return l.made().writer.Downgrade(ctx, h)
}

// Logger returns the Client's logger: see lockmw.Client.
func (l *Locker) Logger() *slog.Logger { return l.made().writer.Logger() }

// made returns l, and panics if New or NewLocal did not make it.
func (l *Locker) made() *Locker {
	if l == nil || l.writer == nil {
		panic("rwlock: the Locker is nil, or was not made by New or NewLocal")
	}
	return l
}
