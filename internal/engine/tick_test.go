package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// tickNow is a tick that is due now.
func tickNow() core.Tick {
	return core.Tick{At: time.Now(), Within: time.Minute, Keep: 3 * time.Minute}
}

// A hold that is gone from the server learns it when it begins a tick, as at a renewal.
func TestATickIsNotBegunByAHoldThatIsGone(t *testing.T) {
	inBubble(t, func(b *bubble) {
		a := b.requester(core.Fair)
		h := a.acquire(b.T, b.e)
		b.rdb.FlushAll(b.Context())
		if _, _, err := h.BeginTick(b.Context(), tickNow()); !errors.Is(err, core.ErrLost) {
			b.Errorf("BeginTick: %v, want ErrLost", err)
		}
		select {
		case err := <-a.lost:
			if !errors.Is(err, core.ErrLost) {
				b.Error(err)
			}
		default:
			b.Error("the loss is not told")
		}
		if _, err := h.Release(time.Second); !errors.Is(err, core.ErrLost) {
			b.Errorf("Release: %v, want ErrLost", err)
		}
		if _, _, err := h.BeginTick(b.Context(), tickNow()); !errors.Is(err, core.ErrLost) {
			b.Errorf("after that: %v, want ErrLost", err)
		}

		h = b.requester(core.Fair).acquire(b.T, b.e)
		b.release(h)
		if _, _, err := h.BeginTick(b.Context(), tickNow()); !errors.Is(err, core.ErrNotHeld) {
			b.Errorf("of a hold that was released: %v, want ErrNotHeld", err)
		}
	})
}

// Whether a server that refuses will go on doing so decides how soon it is asked again.
func TestATickIsBegunWhenTheServerIsReady(t *testing.T) {
	for refusal, tt := range map[string]struct{ least, most time.Duration }{
		"TRYAGAIN Multiple keys request during rehashing of slot": {900 * time.Millisecond, 2 * time.Second},
		"LOADING Redis is loading the dataset in memory":          {900 * time.Millisecond, 2 * time.Second},
		"OOM command not allowed when used memory > 'maxmemory'.": {900 * time.Millisecond, 2 * time.Second},
		"NOPERM this user has no permissions":                     {0, 0},
	} {
		t.Run(refusal[:6], func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				h := b.requester(core.Fair).acquire(b.T, b.e)
				b.s.Mini.SetError(refusal)
				ready := time.AfterFunc(900*time.Millisecond, func() { b.s.Mini.SetError("") })
				begun := time.Now()
				answer, _, err := h.BeginTick(b.Context(), tickNow())
				if took := time.Since(begun); took < tt.least || took > tt.most {
					b.Errorf("it took %v, want from %v to %v", took, tt.least, tt.most)
				}
				if refused := tt.most == 0; errors.Is(err, core.ErrUnavailable) != refused || !refused && (err != nil || answer != core.TickBegun) {
					b.Errorf("BeginTick: %v, %v", answer, err)
				}
				if ready.Stop() {
					b.s.Mini.SetError("")
				}
				b.release(h)
			})
		})
	}
}

func TestATickIsNotBegunAfterTheEndOfTheContext(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Fair).acquire(b.T, b.e)
		for name, disturb := range map[string]func(){"silent": b.wire.Silence, "away": b.wire.Cut} {
			disturb()
			ctx, cancel := context.WithTimeout(b.Context(), 1500*time.Millisecond)
			begun := time.Now()
			_, _, err := h.BeginTick(ctx, tickNow())
			if !errors.Is(err, core.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 1500*time.Millisecond {
				b.Errorf("%s: %v after %v, want ErrUnavailable at the end of its context", name, err, time.Since(begun))
			}
			cancel()
			b.wire.Restore()
			time.Sleep(2 * time.Second)
		}
		b.release(h)
	})
}

// A connection on which nothing is answered does not keep a mark from being written on another one.
func TestAMarkIsWrittenOnAnotherConnection(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.requester(core.Fair).acquire(b.T, b.e)
		hung := b.wire.Withhold(b.e.scripts.All()["mark"].SHA)
		begun := time.Now()
		if again, err := h.MarkTick(b.Context(), tickNow()); again || err != nil || time.Since(begun) > 2*tryTimeout {
			b.Errorf("MarkTick: %t, %v after %v", again, err, time.Since(begun))
		}
		hung.Break()
		b.release(h)
	})
}

func TestCloseEndsTheWaitForAMark(t *testing.T) {
	for name, disturb := range map[string]func(b *bubble){
		"silent": func(b *bubble) { b.wire.Silence() },
		"away":   func(b *bubble) { b.wire.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				h := b.requester(core.Fair).acquire(b.T, b.e)
				b.release(h) // a mark does not need the lock
				disturb(b)
				result := make(chan error, 1)
				go func() {
					_, err := h.MarkTick(context.WithoutCancel(b.Context()), tickNow())
					result <- err
				}()
				time.Sleep(5 * time.Second)
				begun := time.Now()
				_ = b.e.Close()
				if err := <-result; !errors.Is(err, core.ErrClosed) || time.Since(begun) > 15*time.Second {
					b.Errorf("MarkTick: %v after %v, want ErrClosed", err, time.Since(begun))
				}
				if _, err := h.MarkTick(b.Context(), tickNow()); !errors.Is(err, core.ErrClosed) {
					b.Errorf("after that: %v, want ErrClosed", err)
				}
				b.wire.Restore()
			})
		})
	}
}
