package fairlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestLocalLocksExcludeTheOtherLocksOfTheirLocal(t *testing.T) {
	local := lockmw.NewLocal()
	l := fairlock.NewLocal(local)
	_, hold := usertest.Lock(t, t.Context(), l, "user:42")
	for name, other := range map[string]lockmw.Locker{"the Local": local, "another Locker": fairlock.NewLocal(local)} {
		if _, _, err := other.Lock(t.Context(), "user:42", lockmw.WithWait(0)); !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("%s: %v, want ErrBusy", name, err)
		}
	}
	usertest.Unlock(t, hold)
	_, hold = usertest.Lock(t, t.Context(), local, "user:42")
	usertest.Unlock(t, hold)
}

func TestNilArgumentsAreNamed(t *testing.T) {
	lock := func(l *fairlock.Locker) func() error {
		return func() error { _, _, err := l.Lock(t.Context(), "k"); return err }
	}
	usertest.Explains(t, map[string]func() error{
		"New":           func() error { fairlock.New(nil); return nil },
		"a zero Client": func() error { fairlock.New(new(lockmw.Client)); return nil },
		"NewLocal":      func() error { fairlock.NewLocal(nil); return nil },
		"a nil Locker":  lock(nil),
		"a zero Locker": lock(new(fairlock.Locker)),
		"a nil context": func() error {
			var ctx context.Context
			_, _, err := fairlock.NewLocal(lockmw.NewLocal()).Lock(ctx, "k")
			return err
		},
	})
}
