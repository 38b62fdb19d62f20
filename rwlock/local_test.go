package rwlock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

func TestLocalReadersShareAndWritersExclude(t *testing.T) {
	local := lockmw.NewLocal()
	l := rwlock.NewLocal(local)
	_, first := usertest.Lock(t, t.Context(), l.RLocker(), "page:1")
	_, second := usertest.Lock(t, t.Context(), l.RLocker(), "page:1")
	for name, writer := range map[string]lockmw.Locker{"Lock": l, "the Local": local} {
		if _, _, err := writer.Lock(t.Context(), "page:1", lockmw.WithWait(0)); !errors.Is(err, lockmw.ErrBusy) {
			t.Errorf("%s next to readers: %v, want ErrBusy", name, err)
		}
	}
	usertest.Unlock(t, first)
	usertest.Unlock(t, second)
	_, hold := usertest.Lock(t, t.Context(), l, "page:1")
	if err := l.Downgrade(t.Context(), hold); err != nil {
		t.Error(err)
	}
	_, reader := usertest.Lock(t, t.Context(), l.RLocker(), "page:1")
	usertest.Unlock(t, reader)
	usertest.Unlock(t, hold)
}

func TestNilArgumentsAreNamed(t *testing.T) {
	lock := func(l *rwlock.Locker) func() error {
		return func() error { _, _, err := l.Lock(t.Context(), "k"); return err }
	}
	usertest.Explains(t, map[string]func() error{
		"New":           func() error { rwlock.New(nil); return nil },
		"a zero Client": func() error { rwlock.New(new(lockmw.Client)); return nil },
		"NewLocal":      func() error { rwlock.NewLocal(nil); return nil },
		"a nil Locker":  lock(nil),
		"a zero Locker": lock(new(rwlock.Locker)),
		"its Downgrade": func() error { return new(rwlock.Locker).Downgrade(t.Context(), nil) },
		"its readers":   func() error { new(rwlock.Locker).RLocker(); return nil },
		"a nil context": func() error {
			var ctx context.Context
			_, _, err := rwlock.NewLocal(lockmw.NewLocal()).Lock(ctx, "k")
			return err
		},
	})
}
