package inproc_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A jobRig takes the lock of a job, again and again.
type jobRig struct{ *rig }

// hold takes the lock.
func (r jobRig) hold() core.TickHold {
	r.t.Helper()
	h, ok := r.write().hold.(core.TickHold)
	if !ok {
		r.t.Fatalf("the hold has no ticks")
	}
	return h
}

func (r jobRig) release(h core.Hold) {
	r.t.Helper()
	if _, err := h.Release(0); err != nil {
		r.t.Errorf("Release: %v", err)
	}
}

// wants checks the answer to a hold that begins a tick.
func (r jobRig) wants(what string, h core.TickHold, tick core.Tick, want core.TickAnswer) {
	r.t.Helper()
	got, now, err := h.BeginTick(r.ctx, tick)
	if got != want || err != nil || !now.Equal(time.Now()) {
		r.t.Errorf("%s: %d at %v, %v, want %d", what, got, now, err, want)
	}
}

// marks records that a hold has run a tick.
func (r jobRig) marks(what string, h core.TickHold, tick core.Tick, again bool) {
	r.t.Helper()
	if got, err := h.MarkTick(r.ctx, tick); got != again || err != nil {
		r.t.Errorf("%s: %t, %v, want %t", what, got, err, again)
	}
}

func TestATickIsBegunTwiceAtMost(t *testing.T) {
	bubble(t, func(rig *rig) {
		r := jobRig{rig}
		tick := core.Tick{At: time.Now(), Within: time.Minute, Keep: 3 * time.Minute}
		first := r.hold()
		r.wants("the first", first, tick, core.TickBegun)
		r.Expire(key)
		if _, _, err := first.BeginTick(r.ctx, tick); !errors.Is(err, core.ErrLost) {
			t.Errorf("a hold that was lost: %v", err)
		}
		second := r.hold()
		r.wants("the second", second, tick, core.TickBegun)
		r.Expire(key)
		third := r.hold()
		r.wants("the third", third, tick, core.TickFailed)
		r.marks("the first, which is late", first, tick, true)
		r.marks("the second", second, tick, false)
		r.wants("the third", third, tick, core.TickRan)
		r.release(third)
		if _, _, err := third.BeginTick(r.ctx, tick); !errors.Is(err, core.ErrNotHeld) {
			t.Errorf("a hold that was released: %v", err)
		}
	})
}

func TestATickIsDueNearItsTime(t *testing.T) {
	bubble(t, func(rig *rig) {
		r := jobRig{rig}
		h := r.hold()
		for by, want := range map[time.Duration]core.TickAnswer{
			time.Minute: core.TickBegun, -time.Minute: core.TickBegun,
			time.Minute + time.Millisecond: core.TickOff, -time.Minute - time.Millisecond: core.TickOff,
		} {
			r.wants(by.String(), h, core.Tick{At: time.Now().Add(by), Within: time.Minute, Keep: 3 * time.Minute}, want)
		}
		r.release(h)
	})
}

// The record of a tick lasts as long as a call may ask for it, and then takes no memory.
func TestRecordsOfTicksExpire(t *testing.T) {
	bubble(t, func(rig *rig) {
		r := jobRig{rig}
		tick := core.Tick{At: time.Now().Add(time.Minute), Within: time.Minute, Keep: 3 * time.Minute}
		h := r.hold()
		r.wants("a minute before", h, tick, core.TickBegun)
		r.marks("a minute before", h, tick, false)
		time.Sleep(2 * time.Minute)
		r.wants("a minute after", h, tick, core.TickRan)
		for range 100 {
			tick.At = time.Now()
			r.wants("later", h, tick, core.TickBegun)
			r.marks("later", h, tick, false)
			time.Sleep(time.Minute)
		}
		if n := r.Ticks(); n > 5 {
			t.Errorf("%d ticks have a record, want the ticks of three minutes", n)
		}
		r.release(h)
	})
}
