package lockmw

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A scriptedGrant does something in the instant in which its lease is looked at.
type scriptedGrant struct {
	expired func() bool
}

func (g *scriptedGrant) Token() int64                                { return 1 }
func (g *scriptedGrant) Deadline() time.Time                         { return time.Now().Add(time.Minute) }
func (g *scriptedGrant) Expired() bool                               { return g.expired() }
func (g *scriptedGrant) Extend(context.Context, time.Duration) error { return nil }
func (g *scriptedGrant) KeepTaken(time.Duration)                     {}
func (g *scriptedGrant) Downgrade(context.Context) error             { return nil }
func (g *scriptedGrant) Release(time.Duration) (int, error)          { return 0, nil }

func TestReentryThatRacesWithTheLastUnlockGetsNoHold(t *testing.T) {
	g := &scriptedGrant{expired: func() bool { return false }}
	l := &heldLock{backend: g, token: 1}
	last := l.newHold()
	last.attach(t.Context())
	g.expired = func() bool {
		g.expired = func() bool { return false }
		if err := last.Unlock(); err != nil {
			t.Error(err)
		}
		return false
	}
	if again, err := l.reenter(t.Context(), core.Exclusive, func(*heldLock) error { return nil }); again != nil || err != nil {
		t.Errorf("re-entered a lock that was released: %v, %v", again, err)
	}
}

func TestErrIsNotNilOnceTheLossIsNoted(t *testing.T) {
	l := &heldLock{backend: &scriptedGrant{expired: func() bool { return true }}, token: 1}
	h := l.newHold()
	h.attach(t.Context())
	l.lost = ErrLost // by another goroutine, which has yet to end the contexts
	if h.ctx.Err() == nil || !errors.Is(context.Cause(&h.ctx), ErrLost) {
		t.Errorf("Err is %v with cause %v after the loss", h.ctx.Err(), context.Cause(&h.ctx))
	}
}

func TestTheCauseIsTheLossAlsoIfTheParentEndsLater(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	l := &heldLock{backend: &scriptedGrant{expired: func() bool { return false }}, token: 1}
	h := l.newHold()
	h.attach(parent)
	l.Lost(ErrLost)
	cancel()
	if cause := context.Cause(&h.ctx); !errors.Is(cause, ErrLost) {
		t.Errorf("the cause is %v", cause)
	}
}

func TestContextsBelowAHoldEndWithItWithoutAGoroutine(t *testing.T) {
	l := &heldLock{backend: &scriptedGrant{expired: func() bool { return false }}, token: 1}
	h := l.newHold()
	h.attach(t.Context())
	below, cancel := context.WithCancel(&h.ctx)
	defer cancel()
	ended := make(chan struct{})
	context.AfterFunc(below, func() { close(ended) })
	if err := h.Unlock(); err != nil {
		t.Fatal(err)
	}
	if below.Err() == nil { // at once: a goroutine in between would come later
		t.Error("a context below the hold goes on after Unlock")
	}
	<-ended
	if cause := context.Cause(below); !errors.Is(cause, ErrNotHeld) {
		t.Errorf("the cause is %v", cause)
	}
}
