package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A forgetful requester drops its hold.
type forgetful struct {
	*requester
	forgot atomic.Bool
	ends   chan time.Time
}

func (a *forgetful) IsForgotten() bool { return a.forgot.Load() }

func (a *forgetful) Forgotten(_ core.LocalHold, ends time.Time) { a.ends <- ends }

// The lease is longer than is known as long as a renewal has no answer.
func TestAForgottenHoldHasItsWholeLease(t *testing.T) {
	inBubble(t, func(b *bubble) {
		const lease = 6 * time.Second
		a := &forgetful{requester: b.requester(core.Write), ends: make(chan time.Time, 1)}
		a.Lease, a.Events = lease, a
		held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
		start := time.Now()
		if _, err := b.e.Acquire(b.Context(), &a.Request); err != nil {
			b.Fatal(err)
		}
		<-held.Caught()
		a.forgot.Store(true)
		select {
		case ends := <-a.ends:
			if d := ends.Sub(start); d < lease+lease/6 {
				b.Errorf("it ends after %v, as if it had not been renewed", d)
			}
		case <-time.After(2 * lease):
			b.Error("it was not found to be forgotten")
		}
		held.Deliver()
		time.Sleep(2 * lease)
		b.wantLost("a forgotten hold", a.requester, core.ErrLost)
	})
}

func TestAForgottenHoldIsNotRenewed(t *testing.T) {
	inBubble(t, func(b *bubble) {
		const lease = 6 * time.Second
		a := &forgetful{requester: b.requester(core.Write), ends: make(chan time.Time, 1)}
		a.Lease, a.Events = lease, a
		a.forgot.Store(true)
		if _, err := b.e.Acquire(b.Context(), &a.Request); err != nil {
			b.Fatal(err)
		}
		b.sent()
		time.Sleep(2 * lease)
		b.wantLost("a forgotten hold", a.requester, core.ErrLost)
		if n := b.sent()["renew"]; n != 0 {
			b.Errorf("it was renewed %d times", n)
		}
	})
}

// With a short lease a reader may join without a command after the last renewal for others.
func TestAReaderThatJoinsAForgottenOneIsRenewed(t *testing.T) {
	inBubble(t, func(b *bubble) {
		const lease = 200 * time.Millisecond
		b.warm()
		a := &forgetful{requester: b.requester(core.Read), ends: make(chan time.Time, 1)}
		a.Lease, a.Events = lease, a
		a.forgot.Store(true)
		g, err := b.e.Acquire(b.Context(), &a.Request)
		if err != nil {
			b.Fatal(err)
		}
		<-a.ends
		next := b.requester(core.Read)
		next.Lease = lease
		h := next.acquire(b.T, b.e)
		if h.lease != g.(*hold).lease {
			b.Fatal("it has a lease of its own")
		}
		time.Sleep(5 * lease)
		b.release(h)
		b.wantLost("the forgotten hold", a.requester, core.ErrLost)
	})
}
