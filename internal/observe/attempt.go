// Package observe contains the code that the observers of several packages share: attempts in contexts, the names of outcomes,
// and traceparents.
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

// A Phase is the progress of an attempt.
type Phase int32

// Phases of an attempt, in their order.
const (
	Waiting Phase = iota
	Holding
	Over
)

// An Attempt is one call for a lock and its hold, as seen by one observer of type O. It is also the context of the call and of
// the hold, which saves an allocation. Self is the observer's own data for the attempt; it embeds the Attempt by value and
// calls Init.
type Attempt[O, Self any] struct {
	context.Context

	observer *O
	self     *Self
	key      string // of the lock
	phase    atomic.Int32
	failing  atomic.Bool // the last renewal has failed

	Started time.Time     // start of the call
	Waited  time.Duration // how long the call waited for the lock
	granted time.Duration // from Started until the process knew of the hold; of the later keys of a LockAll, Waited began before Started
	Token   int64         // of the hold
}

// Init initialises a, which is embedded in self, as an attempt of observer: a call with context ctx for the lock of key.
func (a *Attempt[O, Self]) Init(ctx context.Context, observer *O, self *Self, key string) {
	a.Context, a.observer, a.self, a.key, a.Started = ctx, observer, self, key, time.Now()
}

// In returns the innermost attempt of observer in ctx; nil if there is none. It ignores attempts of other observers, so several
// can be mounted.
func In[Self, O any](ctx context.Context, observer *O) *Self {
	self, _ := ctx.Value(observer).(*Self)
	return self
}

// Observer returns the observer of a.
func (a *Attempt[O, Self]) Observer() *O { return a.observer }

// Value implements context.Context.
func (a *Attempt[O, Self]) Value(key any) any {
	if o, ok := key.(*O); ok && o == a.observer {
		return a.self
	}
	return a.Context.Value(key)
}

// String implements fmt.Stringer, for code that prints contexts: it would read fields while they change.
func (a *Attempt[O, Self]) String() string { return strings.TrimPrefix(fmt.Sprintf("%T", a.self), "*") }

// Is reports whether a is in phase p.
func (a *Attempt[O, Self]) Is(p Phase) bool { return a.phase.Load() == int32(p) }

// Enter puts a into phase p.
func (a *Attempt[O, Self]) Enter(p Phase) { a.phase.Store(int32(p)) }

// End ends a hold, and reports whether this call was the first one to end it.
func (a *Attempt[O, Self]) End() bool { return a.phase.CompareAndSwap(int32(Holding), int32(Over)) }

// Awaits reports whether a is waiting for the lock of key. If another attempt for that lock begins within it, the observer is
// mounted twice and sees the same attempt again.
func (a *Attempt[O, Self]) Awaits(key string) bool { return a.Is(Waiting) && a.key == key }

// Acquire records the hold of the call.
func (a *Attempt[O, Self]) Acquire(g *lockmw.Acquisition) {
	a.granted = time.Since(a.Started)
	if a.Waited = g.Waited; g.Hold != nil {
		a.Token = g.Hold.Token()
	}
}

// Held returns how long the lock has been held.
func (a *Attempt[O, Self]) Held() time.Duration { return time.Since(a.Started) - a.granted }

// WaitedUntil returns how long a call that failed with err has waited.
func (a *Attempt[O, Self]) WaitedUntil(err error) time.Duration {
	if e, ok := errors.AsType[*lockmw.Error](err); ok && e.Waited > 0 {
		return e.Waited
	}
	return time.Since(a.Started)
}

// BeginsToFail reports whether this renewal failed after one that did not: renewals are tried more and more often towards the
// end of a lease. A loss does not count, because Lost reports it.
func (a *Attempt[O, Self]) BeginsToFail(err error) bool {
	failing := err != nil
	return !core.IsLoss(err) && a.failing.Swap(failing) != failing && failing
}
