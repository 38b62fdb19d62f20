package waitlimit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/waitlimit"
	"github.com/lockmw/go/lockmw"
)

const why = "nobody waits for that long"

// A hold counts how often it was unlocked.
type hold struct {
	unlocked int
	err      error
}

func (h *hold) Unlock() error { h.unlocked++; return h.err }

func TestTheContextEndsWhenTheLimitIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, limit := waitlimit.Start(t.Context(), time.Minute)
		defer limit.Release()
		<-ctx.Done()
		if passed := time.Since(start); passed != time.Minute {
			t.Errorf("ended after %v, want 1m", passed)
		}
	})
}

func TestTheErrorOfACallThatReachedTheLimit(t *testing.T) {
	lost := &lockmw.Error{Op: "unlock", Key: "user:secret", Err: lockmw.ErrLost}
	busy := &lockmw.Error{Op: "lock", Key: "user:secret", Waited: time.Second, Err: lockmw.ErrBusy}
	away := &lockmw.Error{Op: "lock", Key: "user:secret", Err: lockmw.ErrUnavailable}
	for name, tt := range map[string]struct {
		hold *hold
		err  error
		same bool  // the call's own error is returned
		is   error // else what it wraps besides ErrBusy
	}{
		"granted in this instant":     {&hold{}, nil, false, nil},
		"granted, and lost":           {&hold{err: lost}, nil, false, lockmw.ErrLost},
		"its context has ended":       {nil, &lockmw.Error{Op: "lock", Err: context.Canceled}, false, context.Canceled},
		"busy":                        {nil, busy, true, nil},
		"unavailable":                 {nil, away, true, nil},
		"a Locker with its own error": {nil, context.Canceled, false, context.Canceled},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, limit := waitlimit.Start(t.Context(), time.Minute)
			defer limit.Release()
			<-ctx.Done()
			got := limit.Stop(tt.hold, tt.err, why)
			if tt.same {
				if got != tt.err {
					t.Errorf("%s: %v, want the call's own error", name, got)
				}
				return
			}
			e, _ := errors.AsType[*lockmw.Error](got)
			if e == nil || e.Op != "lock" || e.Waited != time.Minute || !errors.Is(got, lockmw.ErrBusy) || !strings.Contains(got.Error(), why) {
				t.Errorf("%s: %v", name, got)
			}
			if tt.is != nil && !errors.Is(got, tt.is) {
				t.Errorf("%s: %v does not wrap %v", name, got, tt.is)
			}
			if strings.Contains(got.Error(), "secret") {
				t.Errorf("%s: %v names the key", name, got)
			}
			if tt.hold != nil && tt.hold.unlocked != 1 {
				t.Errorf("%s: unlocked %d times", name, tt.hold.unlocked)
			}
		})
	}
}

func TestAStoppedLimitLeavesTheContextAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, limit := waitlimit.Start(t.Context(), time.Minute)
		held := &hold{}
		if err := limit.Stop(held, nil, why); err != nil || held.unlocked != 0 {
			t.Errorf("Stop in time: %v, unlocked %d times", err, held.unlocked)
		}
		later, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		<-later.Done()
		if err := ctx.Err(); err != nil {
			t.Errorf("the context ended: %v", err)
		}
		if _, ok := ctx.Deadline(); ok {
			t.Error("the context has a deadline, which a hold would inherit")
		}
		limit.Release()
		if ctx.Err() == nil {
			t.Error("Release did not end the context")
		}
	})
}

func TestAStoppedLimitReturnsTheCallsError(t *testing.T) {
	bug := errors.New("bug")
	_, limit := waitlimit.Start(t.Context(), time.Minute)
	defer limit.Release()
	if err := limit.Stop(nil, bug, why); err != bug {
		t.Errorf("%v, want %v", err, bug)
	}
}

func TestWithoutALimitTheContextIsTheCallers(t *testing.T) {
	ctx, limit := waitlimit.Start(t.Context(), 0)
	if err := limit.Stop(&hold{}, nil, why); ctx != t.Context() || err != nil {
		t.Errorf("there is no limit: %v", err)
	}
	limit.Release()
	if err := ctx.Err(); err != nil {
		t.Error(err)
	}
}

// A wait that is about to end by its limit is no deadlock: the detector of deadlocks asks for it.
func TestTheContextSaysWhenTheWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, limit := waitlimit.Start(t.Context(), time.Minute)
		defer limit.Release()
		inner, cancel := context.WithCancel(ctx)
		defer cancel()
		want := time.Now().Add(time.Minute)
		if got := core.WaitEnd(inner, time.Time{}); !got.Equal(want) {
			t.Errorf("a wait ends at %v, want %v", got, want)
		}
		if got := core.WaitEnd(inner, want.Add(-time.Second)); !got.Equal(want.Add(-time.Second)) {
			t.Errorf("a wait that ends before ends at %v", got)
		}
		if err := limit.Stop(&hold{}, nil, why); err != nil {
			t.Error(err)
		}
		if got := core.WaitEnd(inner, time.Time{}); !got.IsZero() {
			t.Errorf("a wait within the hold ends at %v", got)
		}
	})
}
