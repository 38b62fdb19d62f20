// Package observe has what the observers of packages tracing and locklog have in common: attempts that
// find their way through contexts, the names of outcomes, and traceparents.
package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/lockmw"
)

// A Phase is how far an attempt has come.
type Phase int32

// The phases of an attempt, in their order.
const (
	Waiting Phase = iota
	Holding
	Over
)

// An Attempt is one call for a lock and the hold it leads to, as one observer of type O sees it. It is
// also the context in which they run, which saves an allocation. What the observer knows of the attempt
// is a Self, which embeds the Attempt by value and calls Init.
type Attempt[O, Self any] struct {
	context.Context

	observer *O
	self     *Self
	key      string // of the lock
	phase    atomic.Int32
	failing  atomic.Bool // the last renewal has failed

	Started time.Time     // the call
	Waited  time.Duration // of a call that got the lock
	Token   int64         // of the hold
}

// Init makes a, which is embedded in self, an attempt that observer sees: a call for the lock of key,
// with context ctx.
func (a *Attempt[O, Self]) Init(ctx context.Context, observer *O, self *Self, key string) {
	a.Context, a.observer, a.self, a.key, a.Started = ctx, observer, self, key, time.Now()
}

// In returns the innermost attempt in ctx that observer sees, nil if there is none. Those of other
// observers do not count, so that several can be mounted.
func In[Self, O any](ctx context.Context, observer *O) *Self {
	self, _ := ctx.Value(observer).(*Self)
	return self
}

// Observer returns the observer that sees a.
func (a *Attempt[O, Self]) Observer() *O { return a.observer }

// Value implements context.Context.
func (a *Attempt[O, Self]) Value(key any) any {
	if o, ok := key.(*O); ok && o == a.observer {
		return a.self
	}
	return a.Context.Value(key)
}

// String is for the printing of contexts, which would read the fields while they change.
func (a *Attempt[O, Self]) String() string { return strings.TrimPrefix(fmt.Sprintf("%T", a.self), "*") }

// Is reports whether a is in phase p.
func (a *Attempt[O, Self]) Is(p Phase) bool { return a.phase.Load() == int32(p) }

// Enter puts a into phase p.
func (a *Attempt[O, Self]) Enter(p Phase) { a.phase.Store(int32(p)) }

// End ends a hold, and reports whether it was the first to do so.
func (a *Attempt[O, Self]) End() bool { return a.phase.CompareAndSwap(int32(Holding), int32(Over)) }

// Awaits reports whether a is waiting for the lock of key. If another attempt for that lock begins
// inside of it, the observer is mounted twice, and sees the same attempt again.
func (a *Attempt[O, Self]) Awaits(key string) bool { return a.Is(Waiting) && a.key == key }

// Acquire notes what the call has got.
func (a *Attempt[O, Self]) Acquire(g *lockmw.Acquisition) {
	if a.Waited = g.Waited; g.Hold != nil {
		a.Token = g.Hold.Token()
	}
}

// Held is how long the lock has been held by now.
func (a *Attempt[O, Self]) Held() time.Duration { return time.Since(a.Started) - a.Waited }

// WaitedUntil is how long a call has waited that has failed with err.
func (a *Attempt[O, Self]) WaitedUntil(err error) time.Duration {
	if e, ok := errors.AsType[*lockmw.Error](err); ok && e.Waited > 0 {
		return e.Waited
	}
	return time.Since(a.Started)
}

// BeginsToFail takes how a renewal has ended, and reports whether it failed and the one before had not: renewals are tried ever more
// often towards the end of a lease. A loss is no such failure, as Lost reports it.
func (a *Attempt[O, Self]) BeginsToFail(err error) bool {
	failing := err != nil
	return !core.IsLoss(err) && a.failing.Swap(failing) != failing && failing
}
