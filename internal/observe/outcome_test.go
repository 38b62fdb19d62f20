package observe_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/observe"
	"github.com/lockmw/go/lockmw"
)

func TestOutcomesOfWaits(t *testing.T) {
	for _, tt := range []struct {
		err     error
		outcome string
		typ     string
	}{
		{&lockmw.Error{Err: lockmw.ErrBusy}, "not_acquired", "lock_not_acquired"},
		{&lockmw.Error{Err: lockmw.ErrBusy, Waited: time.Second}, "timeout", "lock_timeout"},
		{&lockmw.Error{Err: lockmw.ErrDeadlock, Waited: time.Second}, "deadlock", "lock_deadlock"},
		{&lockmw.Error{Err: lockmw.ErrClosed}, "canceled", "lock_closed"},
		{&lockmw.Error{Err: fmt.Errorf("%w: %w: %w", lockmw.ErrBusy, context.Canceled, lockmw.ErrLost)}, "canceled", "lock_lost"},
		{&lockmw.Error{Err: lockmw.ErrTooManyWaiters}, "not_acquired", "lock_too_many_waiters"},
		{&lockmw.Error{Err: context.Canceled}, "canceled", "lock_canceled"},
		{fmt.Errorf("wrapped: %w", &lockmw.Error{Err: context.Canceled}), "canceled", "lock_canceled"},
		{lockmw.ErrUnavailable, "error", "lock_unavailable"}, // from a Locker that makes no *lockmw.Error
		{errors.New("bug"), "error", "lock_error"},
	} {
		if got := observe.OutcomeOf(tt.err).String(); got != tt.outcome {
			t.Errorf("%v: outcome %s, want %s", tt.err, got, tt.outcome)
		}
		if got := observe.ErrorType(tt.err); got != tt.typ {
			t.Errorf("%v: type %s, want %s", tt.err, got, tt.typ)
		}
	}
	if got := observe.OutcomeOf(nil); got != observe.Acquired {
		t.Errorf("without an error: %s", got)
	}
}

func TestEveryOutcomeHasAName(t *testing.T) {
	seen := make(map[string]bool)
	for o := range observe.Outcomes {
		if name := o.String(); name == "" || seen[name] {
			t.Errorf("outcome %d is named %q", o, name)
		}
		seen[o.String()] = true
	}
}

func TestTheReasonDoesNotNameTheKey(t *testing.T) {
	if got := observe.Reason(&lockmw.Error{Op: "lock", Key: "item:7", Err: lockmw.ErrBusy}); got != lockmw.ErrBusy {
		t.Errorf("%v", got)
	}
	if bug := errors.New("bug"); observe.Reason(bug) != bug {
		t.Error("another error is not its own reason")
	}
}
