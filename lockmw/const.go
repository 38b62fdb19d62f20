package lockmw

import (
	"context"

	"github.com/lockmw/go/internal/keyed"
)

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
