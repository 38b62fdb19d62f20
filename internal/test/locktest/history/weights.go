package history

import (
	"context"
	"slices"

	"github.com/lockmw/go/lockmw"
)

// Weighing marks a semaphore of n permits whose calls take this weight, so that a History counts it.
func Weighing(l lockmw.Locker, weight, n int) lockmw.Locker { return weighing{l, weight, n} }

type weighing struct {
	lockmw.Locker
	weight, n int
}

// Lock implements lockmw.Locker.
func (w weighing) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	return w.Locker.Lock(ctx, key, append(slices.Clip(opts), lockmw.WithWeight(w.weight))...)
}

// weighs returns the arguments of Weighing; 0 for a lock.
func weighs(l lockmw.Locker) (weight, n int) {
	w, _ := l.(weighing)
	return w.weight, w.n
}
