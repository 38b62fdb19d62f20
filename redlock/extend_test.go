package redlock_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
)

// extendLease is the lease of these holds. They are extended to twice that time.
const extendLease = 10 * time.Second

// One node of three answers later than the two on which the hold rests, and then one of these two fails. The late node counts.
func TestAHoldIsExtendedAtANodeThatAnsweredLate(t *testing.T) {
	leases := map[string]lockmw.Option{
		"a fixed lease":   lockmw.WithFixedLease(extendLease),
		"a renewed lease": lockmw.WithLease(extendLease),
	}
	for name, lease := range leases {
		for late := range 3 {
			t.Run(name, func(t *testing.T) {
				inBubble(t, 3, func(b *bubble) {
					p, q := b.process().warm(), b.process().warm()
					answer := p.wires[late].HoldReply("{item}")
					ctx, hold := lock(b.T, p, "item", lease)
					until := hold.Deadline()
					<-answer.Caught()
					answer.Deliver()
					synctest.Wait()
					if got := hold.Deadline(); !got.Equal(until) {
						b.Errorf("the late answer moves the deadline by %v", got.Sub(until))
					}
					p.wires[(late+1)%3].Cut()
					if err := hold.Extend(b.Context(), 2*extendLease); err != nil {
						b.Fatalf("Extend: %v", err)
					}
					time.Sleep(extendLease + extendLease/2)
					if ctx.Err() != nil {
						b.Errorf("the hold has ended: %v", context.Cause(ctx))
					}
					if _, _, err := q.TryLock(b.Context(), "item"); err == nil {
						b.Error("two hold the lock")
					}
					p.wires[(late+1)%3].Restore()
					_ = hold.Unlock()
				})
			})
		}
	}
}

// The late answer arrives while the hold is extended, or its node must receive the token first.
func TestExtendWaitsForANodeThatIsAboutToCount(t *testing.T) {
	for name, late := range map[string]func(b *bubble, p *process) *redistest.Fault{
		"it answers late": func(_ *bubble, p *process) *redistest.Fault { return p.wires[2].HoldReply("{item}") },
		"its counter is behind": func(b *bubble, p *process) *redistest.Fault {
			return b.bumpOf(p, 2, func(w *redistest.Wire, match ...string) *redistest.Fault { return w.HoldReply(match...) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p := b.process().warm()
				answer := late(b, p)
				_, hold := lock(b.T, p, "item", lockmw.WithFixedLease(extendLease))
				<-answer.Caught()
				p.wires[0].Cut()
				extended := make(chan error, 1)
				go func() { extended <- hold.Extend(b.Context(), 2*extendLease) }()
				synctest.Wait()
				answer.Deliver()
				if err := <-extended; err != nil {
					b.Fatalf("Extend: %v", err)
				}
				if left := time.Until(hold.Deadline()); left < extendLease+extendLease/2 {
					b.Errorf("the hold has %v left", left)
				}
				p.wires[0].Restore()
				_ = hold.Unlock()
			})
		})
	}
}

// bumpOf sets the counters of all nodes but one ahead, so that this node must receive the token, and disturbs that command.
func (b *bubble) bumpOf(p *process, node int, disturb func(w *redistest.Wire, match ...string) *redistest.Fault) *redistest.Fault {
	var ahead int64
	for i := range b.nodes.Servers() {
		if i != node {
			ahead = b.setCounter(i, 30*time.Second)
		}
	}
	return disturb(p.wires[node], strconv.FormatInt(ahead+1, 10))
}

// The command that sends the token to a node is lost. It is sent again, and then the node counts.
func TestALostTokenCommandIsSentAgain(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		lost := b.bumpOf(p, 2, (*redistest.Wire).Withhold)
		ctx, hold := lock(b.T, p, "item", lockmw.WithLease(extendLease))
		<-lost.Caught()
		time.Sleep(3 * time.Second)
		p.wires[0].Cut()
		time.Sleep(2 * extendLease)
		if ctx.Err() != nil {
			b.Errorf("the hold has ended though two nodes answer: %v", context.Cause(ctx))
		}
		p.wires[0].Restore()
		_ = hold.Unlock()
	})
}

// One node of the hold is unreachable when the hold is released, and another node only then answers that it has granted the lock.
func TestANodeThatAnsweredLateConfirmsTheRelease(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		answer := p.wires[2].HoldReply("{item}")
		_, hold := lock(b.T, p, "item")
		<-answer.Caught()
		p.wires[0].Cut()
		unlocked := make(chan error, 1)
		go func() { unlocked <- hold.Unlock() }()
		time.Sleep(100 * time.Millisecond)
		answer.Deliver()
		if err := <-unlocked; err != nil {
			b.Errorf("Unlock: %v, though two nodes are free", err)
		}
		if b.isHeld(1, "item") || b.isHeld(2, "item") {
			b.Error("a node is not free")
		}
		p.wires[0].Restore()
	})
}

// Two nodes have granted the lock, and the one that must receive the token fails. The third node has answered in the meantime.
func TestANodeThatAnsweredLateReceivesTheToken(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		ahead := b.setCounter(0, 30*time.Second)
		answer := p.wires[2].HoldReply("{item}")
		lost := p.wires[1].Withhold(strconv.FormatInt(ahead+1, 10))
		try := p.call("item", lockmw.WithWait(0))
		<-answer.Caught()
		<-lost.Caught()
		answer.Deliver()
		<-try.done
		if try.err != nil {
			b.Fatalf("TryLock: %v", try.err)
		}
		if b.counter(2) < try.hold.Token() {
			b.Errorf("the counter is %d, the token %d", b.counter(2), try.hold.Token())
		}
		_ = try.hold.Unlock()
	})
}
