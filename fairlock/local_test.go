package fairlock_test

import (
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

func TestNewLocalPanics(t *testing.T) {
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("%v, want ErrInvalidOption", err)
		}
	}()
	fairlock.NewLocal(nil)
}
