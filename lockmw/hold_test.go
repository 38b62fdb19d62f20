package lockmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// lockOver takes a lock of n, and returns its context, hold and request.
func lockOver(ctx context.Context, t *testing.T, n *nodes) (context.Context, *lockmw.Hold, *core.Request) {
	t.Helper()
	l := overLocks(t, n, core.Kind{})
	held, hold := usertest.Lock(t, ctx, l, "k")
	return held, hold, n.requests[len(n.requests)-1]
}

func TestReentryThatRacesWithTheLastUnlockTakesTheLockAnew(t *testing.T) {
	n := &nodes{}
	l := overLocks(t, n, core.Kind{})
	ctx, last := usertest.Lock(t, t.Context(), l, "k")
	n.expired = func() bool { // re-entry looks at the lease, and in this instant the last hold is unlocked
		n.expired = nil
		usertest.Unlock(t, last)
		return false
	}
	_, again := usertest.Lock(t, context.WithoutCancel(ctx), l, "k")
	if len(n.requests) != 2 || n.released != 1 {
		t.Errorf("%d requests and %d releases, want 2 and 1: a lock that was released is not re-entered", len(n.requests), n.released)
	}
	if err := again.Unlock(); err != nil || n.released != 2 {
		t.Errorf("Unlock: %v, %d releases, want 2", err, n.released)
	}
}

// Nothing has told the hold yet that its lease ran out: a timer is late, or the process was stopped.
func TestErrComparesTheClockItself(t *testing.T) {
	n := &nodes{}
	ctx, hold, _ := lockOver(t.Context(), t, n)
	n.expired = func() bool { return true }
	if ctx.Err() == nil || !errors.Is(context.Cause(ctx), lockmw.ErrLost) {
		t.Errorf("Err is %v with cause %v after the lease ran out", ctx.Err(), context.Cause(ctx))
	}
	if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("Unlock: %v, want ErrLost", err)
	}
}

func TestTheCauseIsTheLossAlsoIfTheParentEndsLater(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	ctx, _, request := lockOver(parent, t, &nodes{})
	request.Events.Lost(lockmw.ErrLost)
	cancel()
	if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
		t.Errorf("the cause is %v", cause)
	}
}

func TestContextsBelowAHoldEndWithItWithoutAGoroutine(t *testing.T) {
	ctx, hold, _ := lockOver(t.Context(), t, &nodes{})
	below, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	context.AfterFunc(below, func() { close(ended) })
	usertest.Unlock(t, hold)
	if below.Err() == nil { // immediately: a goroutine in between would be later
		t.Error("a derived context does not end with Unlock")
	}
	<-ended
	if cause := context.Cause(below); !errors.Is(cause, lockmw.ErrNotHeld) {
		t.Errorf("the cause is %v", cause)
	}
}

// A caller that did not look at Lock's error defers Unlock of a nil hold.
func TestANilHoldIsNotHeld(t *testing.T) {
	ctx, h, err := lockmw.NewLocal().Lock(t.Context(), "")
	if h != nil || err == nil {
		t.Fatalf("Lock of an empty key returns %v, %v", h, err)
	}
	for name, err := range map[string]error{
		"Unlock":          h.Unlock(),
		"Extend":          h.Extend(ctx, time.Minute),
		"Holds.Unlock":    lockmw.Holds{nil}.Unlock(),
		"Local.Downgrade": lockmw.NewLocal().Downgrade(context.Background(), h),
	} {
		var e *lockmw.Error
		if !errors.Is(err, lockmw.ErrNotHeld) || !errors.As(err, &e) {
			t.Errorf("%s: %v, want an *Error that wraps ErrNotHeld", name, err)
		}
	}
}
