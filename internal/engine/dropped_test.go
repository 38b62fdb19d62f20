package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// A renewal, peek or poll that was dropped for a silent node is sent when it is due again.
func TestDroppedCallsAreSentAgain(t *testing.T) {
	t.Run("renewal", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			b.warm()
			h := b.requester(core.Fair).acquire(b.T, b.e)
			l := h.lease
			l.c.shard.mu.Lock()
			l.paced = true // it waits for its turn
			l.c.shard.mu.Unlock()
			l.Drop()
			b.sent()
			time.Sleep(l.duration / 2)
			if sent := b.sent(); sent["renew"] == 0 {
				b.Errorf("%v", sent)
			}
			b.release(h)
		})
	})
	for ask, name := range map[question]string{peekIt: "peek", pollIt: "poll"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				c := b.waitsBehind(core.Fair)
				r := b.e.ids.requests()[0]
				r.c.shard.mu.Lock()
				r.asking, r.next = ask, ask
				r.c.shard.mu.Unlock()
				var dropped transport.Paced = polled{r}
				if ask == peekIt {
					dropped = peeked{ask, []*request{r}}
				}
				dropped.Drop()
				time.Sleep(script.PollInterval)
				if sent := b.sent(); sent[name] == 0 {
					b.Errorf("%v", sent)
				}
				b.end(c)
			})
		})
	}
}
