package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestAConstantKeyIsTheSameForAllInputs(t *testing.T) {
	local := lockmw.NewLocal()
	var run func(context.Context, int) error
	run = lockmw.WithLock(local, lockmw.Const[int]("report", "nightly:eu"), func(ctx context.Context, n int) error {
		if _, err := lockmw.Held(ctx, "report:nightly%3Aeu"); err != nil || n == 2 {
			return err
		}
		return run(t.Context(), 2)
	})
	if err := run(t.Context(), 1); !errors.Is(err, lockmw.ErrBusy) {
		t.Errorf("another input during the first one: %v, want ErrBusy", err)
	}
	if err := run(t.Context(), 2); err != nil {
		t.Errorf("another input after the first one: %v", err)
	}
}

func TestAConstantKeyThatNoLockCanHavePanics(t *testing.T) {
	for _, parts := range [][]string{{""}, {"report", ""}, {strings.Repeat("k", 1025)}} {
		usertest.WantPanic(t, "lockmw: Const(", "", func() { lockmw.Const[time.Time](parts[0], parts[1:]...) })
	}
}
