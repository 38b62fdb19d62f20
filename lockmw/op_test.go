package lockmw_test

import (
	"errors"
	"testing"

	"github.com/lockmw/go/lockmw"
)

func TestAnErrorNamesTheCallThatMadeTheMistake(t *testing.T) {
	local, bad := lockmw.NewLocal(), lockmw.WithLease(-1)
	triesOnce := lockmw.NewLocal(lockmw.WithWait(0))
	for name, tt := range map[string]struct {
		call func() error
		op   string
	}{
		"Lock":                        {func() error { _, _, err := local.Lock(t.Context(), "k", bad); return err }, "lock"},
		"TryLock":                     {func() error { _, _, err := local.TryLock(t.Context(), "k", bad); return err }, "try_lock"},
		"Lock that tries once":        {func() error { _, _, err := local.Lock(t.Context(), "k", bad, lockmw.WithWait(0)); return err }, "try_lock"},
		"Lock that does so by itself": {func() error { _, _, err := triesOnce.Lock(t.Context(), "k", bad); return err }, "try_lock"},
		"Lock that says otherwise":    {func() error { _, _, err := triesOnce.Lock(t.Context(), "k", bad, lockmw.WithWait(1)); return err }, "lock"},
		"TryLock of no key":           {func() error { _, _, err := local.TryLock(t.Context(), ""); return err }, "try_lock"},
	} {
		err := tt.call()
		if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.Op != tt.op {
			t.Errorf("%s: %v, want an *Error of %s", name, err, tt.op)
		}
	}
}
