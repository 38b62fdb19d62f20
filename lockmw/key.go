package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/keyed"
)

// A KeyFunc says which lock a call needs. It returns ErrNoLock to run this call without one; any
// other error ends the call before a lock is requested.
type KeyFunc[In any] func(ctx context.Context, in In) (string, error)

// By makes a KeyFunc from the kind of thing and functions that take the key's parts from the input:
//
//	lockmw.By("order", func(o Order) string { return o.User }, func(o Order) string { return o.Item })
//
// The key is that of Key. An empty part is ErrInvalidKey. By panics if kind is empty, or so long that
// no key fits, and if there is no part or a nil one: Const is for a key without parts.
func By[In any](kind string, parts ...func(In) string) KeyFunc[In] {
	pattern := keyed.NewPattern("lockmw", "calls", kind, parts)
	return func(_ context.Context, in In) (string, error) {
		return pattern.Key(func(part func(In) string) (string, error) { return part(in), nil })
	}
}

// Key joins the kind of thing and its identifying parts: Key("user", "42") is "user:42". Each is
// escaped (':' is %3A, '%' is %25), so that different parts never make the same key. An empty kind
// or part makes the whole key empty, which every call refuses with ErrInvalidKey: a missing ID can
// never mean one lock shared by all.
//
// Keys are compared byte by byte: "Ann" and "ann" are two locks, as are the composed and the decomposed form of "é". If they
// mean one thing to you, change case and Unicode normalisation before you make the key.
func Key(kind string, parts ...string) string { return keyed.Join(kind, parts...) }

// Const makes a KeyFunc whose key is always the same, that of Key(kind, parts...): for work that runs once at a
// time whatever its input is.
//
//	report := lockmw.WithLock(locks, lockmw.Const[time.Time]("report", "nightly"), makeReport)
//
// All calls share that one lock. A key with parts has a kind, which names the lock in metrics: see WithName. Const panics if
// the key is empty, or longer than 1024 bytes.
func Const[In any](kind string, parts ...string) KeyFunc[In] {
	key := keyed.Const("lockmw", kind, parts)
	return func(context.Context, In) (string, error) { return key, nil }
}
