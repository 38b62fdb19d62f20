package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A push of a grant may come when its hold is about to be released. If its id were unknown for a moment,
// the push would be cancelled as unwanted, and the release would find the lock lost.
func TestAnIDIsKnownFromItsGrantToTheAnswerToItsRelease(t *testing.T) {
	inBubble(t, func(b *bubble) {
		for range 50 {
			h := b.requester(core.Write).acquire(b.T, b.e)
			l, c := h.lease, h.lease.c
			id := l.id.String()
			var unknown, released atomic.Bool
			looked, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for looks := 0; !released.Load(); looks++ {
					if b.e.find(id) == nil {
						unknown.Store(true)
					}
					if looks == 0 {
						close(looked)
					}
				}
			}()
			<-looked
			c.shard.mu.Lock()
			l.detachKeepingID(nil)
			r := l.newRelease(h, clock.Now(), c.e.cfg.UnlockTimeout)
			c.releasing, c.sentAt = r, clock.Now()
			c.shard.mu.Unlock()
			released.Store(true)
			<-done
			if unknown.Load() {
				b.Fatal("the id was unknown before its release was answered")
			}
			if err := r.run(c.e.cfg.UnlockTimeout); err != nil {
				b.Fatal(err)
			}
			if b.e.find(id) != nil {
				b.Fatal("the id is still known after the answer")
			}
		}
	})
}

// A ticket may be granted after its acquire was sent and before the process is subscribed: no message comes,
// and the poll that follows a new subscription does not ask for a request that is not known to be queued yet.
func TestAGrantBeforeTheSubscriptionIsFoundImmediately(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.driver.Write("held")
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		waits := b.call(b.e, b.requester(core.Write))
		b.wantWaiting("a call whose answer is in flight", waits)
		b.driver.Release("held")
		b.e.inboxes.Use(b.inbox())
		b.wantWaiting("one that is subscribed, without its answer", waits)
		start := time.Now()
		held.Deliver()
		h := b.wantGranted("one with its answer", waits)
		if took := time.Since(start); took >= script.PollInterval/2 {
			b.Errorf("it has the lock after %v", took)
		}
		b.release(h)
		b.wantFree()
	})
}
