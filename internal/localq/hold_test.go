package localq

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

type forgettable struct {
	core.Events
	forgotten bool
}

func (f *forgettable) IsForgotten() bool { return f.forgotten }

func TestAHoldSaysWhyItIsOutOfTime(t *testing.T) {
	now := clock.Now()
	for want, h := range map[string]Hold{
		"its maximum hold has ended":   NewHold(&core.Request{MaxHold: time.Second, Fixed: true}, 1, now.Add(-time.Second)),
		"its fixed lease has expired":  NewHold(&core.Request{MaxHold: time.Second, Fixed: true}, 1, now),
		"it was forgotten":             {Req: &core.Request{}, Forgotten: true},
		"it ran out of something else": NewHold(&core.Request{MaxHold: time.Second}, 1, now),
	} {
		if err := h.ExpiryLoss(now, "it ran out of something else"); !errors.Is(err, core.ErrLost) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAMinimumHoldKeepsTheKeyTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &forgettable{forgotten: true}
		h := NewHold(&core.Request{MinHold: time.Second, Events: events}, 1, clock.Now())
		h.Keep(time.Millisecond) // it is kept longer already
		if h.Linger() != time.Second || !h.KeptUntil().Equal(time.Now().Add(time.Second)) || h.BecomesForgotten() {
			t.Errorf("%v are left, until %v", h.Linger(), h.KeptUntil())
		}
		h.Keep(time.Minute)
		time.Sleep(59 * time.Second)
		if h.Linger() != time.Second {
			t.Errorf("%v are left of a minute", h.Linger())
		}
		time.Sleep(2 * time.Second)
		if h.Linger() != 0 || !h.KeptUntil().IsZero() || !h.BecomesForgotten() || h.BecomesForgotten() {
			t.Errorf("%v are left of nothing; forgotten: %t", h.Linger(), h.Forgotten)
		}
		gone := NewHold(&core.Request{MinHold: time.Second}, 1, clock.Now())
		if gone.Abandoned = true; gone.Linger() != 0 {
			t.Error("a call that gave up keeps the key")
		}
	})
}

func TestHowAHoldHasEnded(t *testing.T) {
	h := NewHold(&core.Request{}, 1, clock.Now())
	if h.Ended() != nil {
		t.Error("it has ended")
	}
	released, lost := h, h
	released.End(nil)
	lost.End(core.ErrClosed)
	if !errors.Is(released.Ended(), core.ErrNotHeld) || !errors.Is(lost.Ended(), core.ErrClosed) {
		t.Errorf("%v, %v", released.Ended(), lost.Ended())
	}
}

func TestBlocksOfTokens(t *testing.T) {
	for _, test := range []struct{ last, waiting, want int }{{0, 2, 64}, {0, 100, 200}, {64, 2, 128}, {4096, 2, 4096}, {0, 1 << 20, 4096}} {
		if got := NextBlock(test.last, test.waiting); got != test.want {
			t.Errorf("after %d, when %d wait, %d tokens are wanted, want %d", test.last, test.waiting, got, test.want)
		}
	}
	tokens := NewTokens(5, 6)
	if a, b := tokens.Take(), tokens.Take(); a != 5 || b != 6 || !tokens.IsEmpty() || tokens.Last() != 6 {
		t.Errorf("tokens %d and %d, %+v", a, b, tokens)
	}
	renewed, fixed := &core.Request{Lease: time.Second}, &core.Request{Lease: time.Second, Fixed: true}
	for _, test := range []struct {
		from, to *core.Request
		lease    time.Duration
		want     bool
	}{
		{renewed, renewed, time.Second, true},
		{renewed, renewed, time.Minute, false}, // it was extended
		{fixed, renewed, time.Second, false},
		{renewed, fixed, time.Second, false},
	} {
		if got := MayFollow(test.from, test.lease, test.to); got != test.want {
			t.Errorf("%+v after %+v with %v: %t", test.to, test.from, test.lease, got)
		}
	}
}
