package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

// placed returns a hold that came from a kept place, and has a maximum of a second.
func (b *bubble) placed() *hold {
	b.Helper()
	b.driver.Fair("held")
	a := b.requester(core.Fair)
	a.Place, a.KeepPlace, a.MaxHold = "t", time.Minute, time.Second
	c := b.call(b.e, a)
	b.wantWaiting("a call with a place", c)
	b.driver.Release("held")
	return b.wantGranted("a call with a place", c)
}

func (b *bubble) wantPlaceOver(what string) {
	b.Helper()
	synctest.Wait()
	if place, ok := b.driver.Look().Kept.Digits(""); ok && place > 0 {
		b.Errorf("%s: its place is kept", what)
	}
}

func TestALossEndsTheKeptPlace(t *testing.T) {
	lost := map[string]func(b *bubble, h *hold){
		"by the clock": func(b *bubble, _ *hold) { time.Sleep(2 * time.Second) },
		"seen at its release": func(b *bubble, h *hold) {
			h.limit.Store(1) // as if the loop were late
			time.Sleep(time.Millisecond)
			_, err := h.Release(time.Second)
			if !errors.Is(err, core.ErrLost) {
				b.Errorf("Release: %v", err)
			}
		},
		"gone from the server at its release": func(b *bubble, h *hold) {
			b.rdb.Del(b.Context(), b.driver.Keys.Holder())
			if _, err := h.Release(time.Second); !errors.Is(err, core.ErrLost) {
				b.Errorf("Release: %v", err)
			}
		},
		"taken away": func(b *bubble, h *hold) {
			b.driver.Force(h.Token(), "owner")
			time.Sleep(time.Millisecond) // a renewal says so
		},
		"by Close": func(b *bubble, _ *hold) { _ = b.e.Close() },
	}
	for what, lose := range lost {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				lose(b, b.placed())
				b.wantPlaceOver(what)
			})
		})
	}
}
