package rwlock_test

import (
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

func TestNewLocalPanics(t *testing.T) {
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("%v, want ErrInvalidOption", err)
		}
	}()
	rwlock.NewLocal(nil)
}
