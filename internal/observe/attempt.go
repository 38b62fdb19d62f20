// Package observe has what the observers of packages tracing and locklog have in common: attempts that
// find their way through contexts, the names of outcomes, and traceparents.
package observe

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
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
}

// Init makes a, which is embedded in self, an attempt that observer sees: a call for the lock of key,
// with context ctx.
func (a *Attempt[O, Self]) Init(ctx context.Context, observer *O, self *Self, key string) {
	a.Context, a.observer, a.self, a.key = ctx, observer, self, key
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
