package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestWithoutHoldsALockIsNotReentered(t *testing.T) {
	local := lockmw.NewLocal()
	held, hold := usertest.Lock(t, t.Context(), local, "user:42")
	ctx := lockmw.WithoutHolds(held)
	if _, found := lockmw.FromContext(ctx); found {
		t.Error("the context carries a hold")
	}
	if _, err := lockmw.Held(ctx, "user:42"); !errors.Is(err, lockmw.ErrNotHeld) {
		t.Errorf("Held: %v", err)
	}
	if _, _, err := local.Lock(ctx, "user:42", lockmw.WithWait(0)); !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("Lock: %v, want ErrBusy", err)
	}
	if _, _, err := lockmw.LockAll(ctx, local, []string{"item:7", "user:42"}, lockmw.WithWait(0)); !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("LockAll: %v, want ErrBusy", err)
	}
	if err := hold.Unlock(); err != nil || ctx.Err() == nil {
		t.Errorf("%v; the context must end with the hold", err)
	}
}

// The holds belong to three flows of work. Each starts from a context of the one before.
func TestWithoutHoldsOnlyLaterHoldsCount(t *testing.T) {
	local := lockmw.NewLocal()
	ctx := t.Context()
	for _, keys := range [][]string{{"a", "b"}, {"c", "d"}, {"e", "f"}} {
		ctx = lockmw.WithoutHolds(ctx)
		for _, key := range keys {
			inner, hold := usertest.Lock(t, ctx, local, key, lockmw.WithWait(0))
			defer hold.Unlock()
			ctx = inner
		}
	}
	for key, want := range map[string]bool{"a": false, "b": false, "c": false, "d": false, "e": true, "f": true} {
		if _, err := lockmw.Held(ctx, key); (err == nil) != want {
			t.Errorf("%s is held: %v, want %t", key, err, want)
		}
		_, hold, err := local.Lock(ctx, key, lockmw.WithWait(0))
		if (err == nil) != want {
			t.Errorf("%s is re-entered: %v, want %t", key, err, want)
		}
		_ = hold.Unlock()
	}
	if plain := t.Context(); lockmw.WithoutHolds(plain) != plain {
		t.Error("a context without holds was copied")
	}
}

// A wait for a hold that the context hides is no deadlock: it ends with that hold.
func TestWithoutHoldsNoDeadlockIsSeen(t *testing.T) {
	lock := func(t *testing.T, ctx context.Context, l lockmw.Locker, key string) context.Context {
		ctx, hold := usertest.Lock(t, ctx, l, key)
		time.AfterFunc(time.Minute, func() { _ = hold.Unlock() })
		return context.WithoutCancel(ctx) // the wait must not end with the hold
	}
	for name, contextOf := range map[string]func(*testing.T, lockmw.Locker) context.Context{
		"directly": func(t *testing.T, l lockmw.Locker) context.Context {
			return lockmw.WithoutHolds(lock(t, context.Background(), l, "user:42"))
		},
		"below another hold": func(t *testing.T, l lockmw.Locker) context.Context {
			return lock(t, lockmw.WithoutHolds(lock(t, context.Background(), l, "user:42")), l, "item:7")
		},
		"in a scope that begins between two holds": func(t *testing.T, l lockmw.Locker) context.Context {
			type inScope struct{}
			ctx := context.WithValue(lock(t, context.Background(), l, "user:42"), inScope{}, true)
			ctx = core.WithScope(lock(t, ctx, l, "item:7"), func(taken context.Context) bool { return taken.Value(inScope{}) != nil })
			if _, err := lockmw.Held(ctx, "item:7"); err != nil {
				t.Error(err)
			}
			return lock(t, ctx, l, "item:8")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				local := lockmw.NewLocal()
				ctx := contextOf(t, local)
				if _, err := lockmw.Held(ctx, "user:42"); !errors.Is(err, lockmw.ErrNotHeld) {
					t.Errorf("Held: %v", err)
				}
				_, hold := usertest.Lock(t, ctx, local, "user:42", lockmw.WithWait(time.Hour))
				_ = hold.Unlock()
			})
		})
	}
}
