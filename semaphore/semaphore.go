// Package semaphore lets up to n callers hold a key at a time, over all processes: 5 calls to a payment provider, 3 exports of a
// tenant, 20 tasks of a type.
//
//	exports := semaphore.New(locks, 3) // a *lockmw.Client
//	ctx, hold, err := exports.Lock(ctx, lockmw.Key("exports", tenant))
//
// A permit is a hold, as with a lock. It has a lease that the watchdog renews, a context that ends when it is lost, and a fencing
// token. Every option, middleware, observer and metric works with it. A crashed holder's permit returns when its lease expires; the
// others are not affected. See [docs/semaphore.md].
//
// # Order
//
// Permits are granted first come, first served, in the order in which Redis saw the calls; clients' clocks do not matter. No call
// overtakes a waiting one, not even by TryLock. lockmw.WithWeight takes several permits, all or none. A call of weight 5 at the head
// of the queue waits until 5 permits are free. The calls behind it also wait, even if they would fit. So light calls cannot starve
// heavy ones, but permits stay free in the meantime; docs/semaphore.md says how many.
//
// # Slots and tokens
//
// Each hold has slots (lockmw.Hold.Slots): numbers from 0 to n - 1 that no other holder has at the same time. Use them for ports,
// shards or directories. Tokens rise from grant to grant of a key. Several holders have tokens at the same time, so a store that is
// to refuse a late writer compares the tokens of one slot.
//
// # Changing n
//
// Processes may use different n for a key, as in a roll-out. Each call goes by its own n: it gets a permit if the weight that is
// held, plus its own, is at most that n. The queue keeps its order.
//
// # Other kinds
//
// Use a key either for locks or for a semaphore. While a call holds it or waits for it as one kind, a call for the other kind fails
// with lockmw.ErrWrongType. Package redlock has no semaphore, because over several independent servers more than n callers could
// hold it.
//
// [docs/semaphore.md]: https://github.com/lockmw/go/blob/main/docs/semaphore.md
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

// MaxPermits is the greatest number of permits of a semaphore.
const MaxPermits = core.MaxPermits

// A Locker takes permits. It returns the same errors as lockmw.Client. It is safe for concurrent use.
type Locker struct {
	mark
	locker kinds.Locker
}

type mark = inside.Mark // an alias, so that the documentation shows no fields

var _ lockmw.Locker = (*Locker)(nil)

// New returns a Locker with n permits for each key, over the locks of c. It sends no command. The options are the defaults of its
// permits and take precedence over the defaults of c. The Locker needs no Close; it is closed with c.
//
// New panics if n is not from 1 to MaxPermits, if an option is invalid or asks for more than n permits, or if c is nil. The panic
// value is an error that wraps lockmw.ErrInvalidOption.
func New(c *lockmw.Client, n int, opts ...lockmw.Option) *Locker { return over(c, n, opts) }

// NewLocal is New for permits within this process, for tests and for programs of one process.
func NewLocal(l *lockmw.Local, n int, opts ...lockmw.Option) *Locker { return over(l, n, opts) }

func over(locks lockmw.Locker, n int, opts []lockmw.Option) *Locker {
	if n < 1 || n > MaxPermits {
		panic(fmt.Errorf("%w: a semaphore with %d permits, must be from 1 to %d", lockmw.ErrInvalidOption, n, MaxPermits))
	}
	l := &Locker{locker: kinds.New(locks, core.Kind{Mode: core.Permit, OwnTicket: true, Permits: n}, opts...)}
	l.mark = inside.NewMark(l, l.locker)
	return l
}

// Lock takes a permit, or several with lockmw.WithWeight. It implements lockmw.Locker.
func (l *Locker) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.Lock(ctx, key, opts...)
}

// TryLock is Lock with WithWait(0). It takes a permit only if one is free and no call waits.
func (l *Locker) TryLock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return l.made().locker.TryLock(ctx, key, opts...)
}

// Logger returns the Client's logger: see lockmw.Client.
func (l *Locker) Logger() *slog.Logger { return l.made().locker.Logger() }

// made returns l, and panics if New or NewLocal did not make it.
func (l *Locker) made() *Locker {
	if l == nil || l.locker == nil {
		panic("semaphore: the Locker is nil, or was not made by New or NewLocal")
	}
	return l
}
