// Package semaphore lets up to n hold a key at the same time, over all goroutines, Clients and processes: at most 3 exports of a
// tenant, at most 20 calls to a payment provider.
//
//	exports := semaphore.New(locks, 3) // a *lockmw.Client
//	ctx, hold, err := exports.Lock(ctx, lockmw.Key("exports", tenant))
//
// A permit is a hold as that of a lock: it has a lease that the watchdog renews, a context that ends when it is lost, and
// a fencing token. Each has its own: who crashes gives back one permit, when its lease ends, and the others go on. All
// middlewares, options and observers take a semaphore where they take a lock.
//
// # Order
//
// It is first come, first served, in the order in which Redis saw the calls; no client's clock matters. Nobody overtakes a call
// that waits, TryLock included. lockmw.WithWeight takes several permits, all or none. A call of weight 5 at the head of the
// queue waits until 5 are free, and those behind it wait, too, even if they would fit: so heavy calls are not
// overtaken for ever, and permits lie idle meanwhile. docs/semaphore.md says how many.
//
// # Slots and tokens
//
// Each hold has slots (lockmw.Hold.Slots): numbers from 0 to n - 1 that no other has meanwhile, for ports, shards or
// directories. Tokens rise from grant to grant of a key, and several holds are there at once: what is to refuse an
// old holder has to compare the tokens of one slot.
//
// # Another n
//
// Processes may say different n for a key, as in a roll-out. Each call goes by its own: it is granted a permit if
// the weight that is held is then at most its n. The queue keeps its order.
//
// # Other kinds
//
// A key is for locks or for a semaphore: while somebody holds it or waits for it as the one, a call for the other is
// lockmw.ErrWrongType. A semaphore over several independent servers would let more than n hold it, so there is none for
// package redlock.
package semaphore

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inside"
	"github.com/lockmw/go/internal/kinds"
	"github.com/lockmw/go/lockmw"
)

// MaxPermits is how many a semaphore has at most.
const MaxPermits = core.MaxPermits

// A Locker takes permits. Its errors are those of lockmw.Client. Safe for concurrent use.
type Locker struct {
	mark
	locker kinds.Locker
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ lockmw.Locker = (*Locker)(nil)

// New returns a Locker of which n can hold a key at the same time, over the locks of c. It sends nothing. The Locker ends when c is
// closed. The options are the defaults of its locks, and take precedence over those of c. As fairlock.New does, New panics if
// n is not from 1 to MaxPermits, if an option is invalid or asks for more than n permits, or if c is nil: with an error that
// wraps lockmw.ErrInvalidOption.
func New(c *lockmw.Client, n int, opts ...lockmw.Option) *Locker { return over(c, n, opts) }

// NewLocal is New for locks within this process: for tests, and for programs of one process.
func NewLocal(l *lockmw.Local, n int, opts ...lockmw.Option) *Locker { return over(l, n, opts) }

func over(locks lockmw.Locker, n int, opts []lockmw.Option) *Locker {
	if n < 1 || n > MaxPermits {
		panic(fmt.Errorf("%w: a semaphore with %d permits, must be from 1 to %d", lockmw.ErrInvalidOption, n, MaxPermits))
	}
	l := &Locker{locker: kinds.New(locks, core.Kind{Mode: core.Permit, OwnTicket: true, Permits: n}, opts...)}
	l.mark = inside.NewMark(l, l.locker)
	return l
}

// Lock implements lockmw.Locker.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0): it takes a permit only if one is free and nobody waits.
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.TryLock(ctx, key, opts...)
}

// Logger returns the Client's logger: see lockmw.Client.
func (l *Locker) Logger() *slog.Logger { return l.made().locker.Logger() }

// made returns l.
func (l *Locker) made() *Locker {
	if l == nil || l.locker == nil {
		panic("semaphore: the Locker is nil, or was not made by New or NewLocal")
	}
	return l
}
