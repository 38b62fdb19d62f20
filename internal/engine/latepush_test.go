package engine

import (
	"sync/atomic"
	"testing"

	"github.com/lockmw/go/internal/core"
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
			c.releasing, c.sentAt = true, c.e.now()
			c.shard.mu.Unlock()
			released.Store(true)
			<-done
			if unknown.Load() {
				b.Fatal("the id was unknown before its release was answered")
			}
			if err := l.release(h, c.e.cfg.Unlock, 0, h.deadline()); err != nil {
				b.Fatal(err)
			}
			if b.e.find(id) != nil {
				b.Fatal("the id is still known after the answer")
			}
		}
	})
}
