package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
)

// together starts five readers with a cap while the answer of the script to the first is in flight, and returns when the answer
// has arrived.
func (b *bubble) together(script string, most int) (calls []*calling) {
	b.Helper()
	held := b.wire.HoldReply(script)
	for range 5 {
		a := b.requester(core.Read)
		a.MaxWaiters = most
		calls = append(calls, b.call(b.e, a))
	}
	held.Deliver()
	synctest.Wait()
	return calls
}

func TestTheWaiterCapDoesNotCountReadersThatComeTogether(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		var grants []*hold
		for _, script := range []string{b.e.scripts.All()["acquire"].SHA, b.e.scripts.All()["renew"].SHA} {
			for _, c := range b.together(script, 1) {
				grants = append(grants, b.wantGranted("a reader", c))
			}
			time.Sleep(shareFor)
		}
		b.release(grants...)
	})
}

// Readers that came together, and then have to wait, are as many as the cap allows.
func TestTheWaiterCapHoldsForReadersThatFindAWriterInTheWay(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		writer := b.wantGranted("the writer", b.call(other, b.requester(core.Write)))
		calls := b.together(b.e.scripts.All()["acquire"].SHA, 2)
		for i, c := range calls {
			switch {
			case i < 2:
				b.wantWaiting("an early reader", c)
			case !c.returned() || !errors.Is(c.err, core.ErrTooManyWaiters):
				b.Errorf("reader %d: returned %t, %v", i, c.returned(), c.err)
			}
		}
		b.release(writer)
		for _, c := range calls[:2] {
			b.release(b.wantGranted("an early reader", c))
		}
		b.checkGone(other)
	})
}

// A refused call does not count as a waiter.
func TestTheWaiterCapDoesNotCountRefusedCalls(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.read()
		time.Sleep(shareFor)
		ctx, key := b.Context(), b.driver.Keys.Holder()
		b.rdb.Rename(ctx, key, key+":aside")
		b.rdb.Set(ctx, key, "a stranger's", 0)
		for range 3 {
			if c := b.call(b.e, b.requester(core.Read)); !c.returned() || !errors.Is(c.err, core.ErrWrongType) {
				b.Errorf("a join of a lock whose key is a stranger's: returned %t, %v", c.returned(), c.err)
			}
		}
		b.rdb.Rename(ctx, key+":aside", key)
		a := b.requester(core.Read)
		a.MaxWaiters = 1
		c := b.call(b.e, a)
		b.release(b.wantGranted("a join", c), first)
		b.wantFree()
	})
}

func TestTheWaiterCapDropsEndedLeases(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		capped := func() *calling {
			a := b.requester(core.Read)
			a.Lease, a.MaxWaiters = time.Minute, 1
			return b.call(b.e, a)
		}
		first := b.read()
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		calls := []*calling{capped()}
		b.release(first)
		calls = append(calls, capped())
		held.Deliver()
		for _, c := range calls {
			b.wantGranted("one of two", c)
		}
		b.release(calls[0].grant, calls[1].grant)
		b.wantFree()
	})
}
