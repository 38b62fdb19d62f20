package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/keyed"
)

// A KeyFunc returns the key of the lock that a call needs. It may return ErrNoLock to run this call without a lock. Any other
// error ends the call before a lock is requested.
type KeyFunc[In any] func(ctx context.Context, in In) (string, error)

// By makes a KeyFunc from the kind of thing and functions that return the key's parts:
//
//	lockmw.By("order", func(o Order) string { return o.User }, func(o Order) string { return o.Item })
//
// It makes the same keys as Key. An empty part ends the call with ErrInvalidKey. By panics if kind is empty or too long for
// any key, or if there is no part or a nil one. For a key without parts use Const.
func By[In any](kind string, parts ...func(In) string) KeyFunc[In] {
	pattern := keyed.NewPattern("lockmw", "calls", kind, parts)
	return func(_ context.Context, in In) (string, error) {
		return pattern.Key(func(part func(In) string) (string, error) { return part(in), nil })
	}
}

// Key joins the kind of thing and the parts that identify it: Key("user", "42") is "user:42". Each part is escaped (':' is
// %3A, '%' is %25), so that different parts never make the same key. An empty kind or part makes the whole key empty, which
// every call refuses with ErrInvalidKey: a missing ID never makes all calls share one lock.
//
// Keys are compared byte by byte: "Ann" and "ann" are two locks, and so are the composed and the decomposed form of "é". If
// they mean the same thing to you, normalize case and Unicode before you make the key.
func Key(kind string, parts ...string) string { return keyed.Join(kind, parts...) }

// Const makes a KeyFunc that always returns Key(kind, parts...). It is for work that must not overlap, whatever its input is:
//
//	report := lockmw.WithLock(locks, lockmw.Const[time.Time]("report", "nightly"), makeReport)
//
// All calls share that one lock. Give it at least one part: the kind of a key with parts names the lock in metrics (see
// WithName). Const panics if the key is empty or longer than 1024 bytes.
func Const[In any](kind string, parts ...string) KeyFunc[In] {
	key := keyed.Const("lockmw", kind, parts)
	return func(context.Context, In) (string, error) { return key, nil }
}
