package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A tick counts as begun, or marked, once replicas have its record, so that the server that replaces the master also has it.
func TestTheRecordOfATickCountsOnceReplicasHaveIt(t *testing.T) {
	for what, note := range map[string]func(b *replicatedBubble, h *hold, ctx context.Context) error{
		"its beginning": func(_ *replicatedBubble, h *hold, ctx context.Context) error {
			answer, _, err := h.BeginTick(ctx, tickNow())
			if err == nil && answer != core.TickBegun {
				return errors.New("it is not begun")
			}
			return err
		},
		"its mark": func(b *replicatedBubble, h *hold, ctx context.Context) error {
			again, err := h.MarkTick(ctx, tickNow())
			if again {
				b.Error("another hold has begun it")
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			inReplicatedBubble(t, func(b *replicatedBubble) {
				a := b.requester(core.Fair)
				h := a.acquire(b.T, b.e)
				b.replicas.have.Store(1)
				ctx, cancel := context.WithTimeout(b.Context(), 5*time.Second)
				defer cancel()
				b.wantFew(what, note(b, h, ctx))
				if ctx.Err() == nil {
					b.Errorf("%s: it was given up early", what)
				}
				asked := b.replicas.waits.Load()
				time.AfterFunc(3*time.Second, func() { b.replicas.have.Store(2) })
				if err := note(b, h, b.Context()); err != nil {
					b.Errorf("%s, which replicas have after a while: %v", what, err)
				}
				if b.replicas.waits.Load() < asked+2 {
					b.Errorf("%s: replicas were not asked again", what)
				}
				b.release(h)
			})
		})
	}
}

// An answer about the record of others does not depend on what this execution has written.
func TestATickThatIsNotBegunNeedsNoReplicas(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		h := b.requester(core.Fair).acquire(b.T, b.e)
		tick := tickNow()
		if _, err := h.MarkTick(b.Context(), tick); err != nil {
			b.Fatal(err)
		}
		b.replicas.have.Store(0)
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		if answer, _, err := h.BeginTick(ctx, tick); err != nil || answer != core.TickRan {
			b.Errorf("%v, %v, want that it was run", answer, err)
		}
		b.release(h)
	})
}
