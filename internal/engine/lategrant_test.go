package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A lateGrant is a waiter whose grant is answered after its own deadline, and two that wait behind it.
type lateGrant struct {
	*bubble
	other                *Engine
	first, second, third *calling
	deliver              func() // the late answer
}

// withLateGrant makes the server grant the lock to the first of three waiters, by a push that is too late to be reliable, and
// holds back the answer to the poll that follows.
func withLateGrant(t *testing.T, test func(b *lateGrant)) {
	inBubble(t, func(b *bubble) {
		b.warm()
		g := &lateGrant{bubble: b, other: b.engine()}
		b.driver.Fair("held")
		short := b.requester(core.Fair)
		short.Lease = 500 * time.Millisecond
		g.first = b.call(b.e, short)
		g.second = b.call(g.other, b.requester(core.Fair))
		g.third = b.call(g.other, b.requester(core.Fair))
		r := b.e.ids.requests()[0]
		r.c.shard.mu.Lock()
		r.acceptBy, r.distrust = 0, clock.Now().Add(time.Hour) // no push counts: a poll follows
		r.c.shard.mu.Unlock()
		held := b.wire.HoldReply(b.e.scripts.All()["poll"].SHA)
		b.driver.Release("held")
		<-held.Caught()
		time.Sleep(short.Lease + short.Lease/10) // earlier than the next poll
		b.wantWaiting("a call whose answer is in flight", g.first)
		g.deliver = held.Deliver
		test(g)
		b.wantFree()
		b.checkGone(g.other)
	})
}

func TestAGrantThatIsAnsweredTooLateIsAskedForAgain(t *testing.T) {
	withLateGrant(t, func(b *lateGrant) {
		granted := b.driver.Look().HolderID()
		b.deliver()
		h := b.wantGranted("the first", b.first)
		if id := h.lease.id.String(); id != granted {
			b.Errorf("it holds the lock as %s, and was granted it as %s", id, granted)
		}
		b.wantWaiting("the second", b.second)
		b.release(h)
		b.release(b.wantGranted("the second", b.second))
		b.release(b.wantGranted("the third", b.third))
	})
}

func TestAWaiterWhoseGrantIsGoneHasItsPlace(t *testing.T) {
	withLateGrant(t, func(b *lateGrant) {
		b.rdb.Del(b.Context(), b.driver.Keys.Holder()) // as if it had expired
		b.driver.Settle()
		b.deliver()
		h := b.wantGranted("the second, which was granted the lock meanwhile", b.second)
		b.wantWaiting("the first", b.first)
		b.release(h)
		h = b.wantGranted("the first", b.first)
		b.wantWaiting("the third", b.third)
		b.release(h)
		b.release(b.wantGranted("the third", b.third))
	})
}

// An answer to an acquire may also come too late. Its request has no place yet.
func TestALockThatWasFreeIsAskedForAgain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		for _, gone := range []bool{false, true} {
			short := b.requester(core.Fair)
			short.Lease = 200 * time.Millisecond
			held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
			c := b.call(b.e, short)
			<-held.Caught()
			time.Sleep(short.Lease - short.Lease/100)
			if gone {
				b.rdb.Del(b.Context(), b.driver.Keys.Holder()) // as if it had expired
			}
			held.Deliver()
			synctest.Wait()
			b.release(b.wantGranted("one that was answered late", c))
			b.wantFree()
		}
	})
}
