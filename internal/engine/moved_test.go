package engine

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// doubt has the engine see that the slot of h has moved.
func (b *replicatedBubble) doubt(h *hold) {
	h.lease.c.shard.mu.Lock()
	h.lease.c.slot.movedAt.Store(int64(clock.Now()))
	h.lease.endUnlessRenewed(clock.Now())
	h.lease.c.shard.mu.Unlock()
}

func TestAHoldWhoseSlotHasMovedEndsUnlessReplicasAcknowledgeIt(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		t.Run(fmt.Sprint(fixed), func(t *testing.T) {
			inReplicatedBubble(t, func(b *replicatedBubble) {
				a := b.requester(core.Exclusive)
				a.Lease, a.Fixed = time.Hour, fixed
				h := a.acquire(b.T, b.e)
				deadline := h.Deadline()
				time.Sleep(time.Second)
				b.doubt(h)
				time.Sleep(2 * movedGrace)
				if got := h.Deadline(); h.gone() != nil || got.Before(deadline) || !fixed && !deadline.Before(got) {
					b.Errorf("acknowledged immediately: %v, the deadline is %v later", h.gone(), got.Sub(deadline))
				}

				b.replicas.have.Store(1)
				b.doubt(h)
				begun := time.Now()
				err := <-a.lost
				if took := time.Since(begun); took > movedGrace+100*time.Millisecond || !strings.Contains(err.Error(), "its slot has moved") {
					b.Errorf("not acknowledged: lost after %v: %v", took, err)
				}
				_, _ = h.Release(time.Second)
			})
		})
	}
}

func TestAnAnswerFromBeforeASlotMovedMovesNoDeadline(t *testing.T) {
	inReplicatedBubble(t, func(b *replicatedBubble) {
		a := b.requester(core.Exclusive)
		a.Lease = time.Hour
		h := a.acquire(b.T, b.e)
		deadline := h.Deadline()
		held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
		go func() { _ = h.Extend(b.Context(), a.Lease) }()
		<-held.Caught()
		time.Sleep(time.Millisecond)
		b.replicas.have.Store(1)
		b.doubt(h)
		held.Deliver()
		synctest.Wait()
		if got := h.Deadline(); !got.Before(deadline) {
			b.Errorf("the deadline is %v later", got.Sub(deadline))
		}
		<-a.lost //nolint:errcheck // that it is lost is enough
		_, _ = h.Release(time.Second)
	})
}
