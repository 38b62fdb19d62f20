package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A ticket lives as long as its process: its cancel is not given up when a short lease would be over.
func TestTheCancelOfATicketOutlivesItsLease(t *testing.T) {
	inBubble(t, func(b *bubble) {
		other := b.engine()
		h := b.requester(core.Exclusive).acquire(b.T, other)
		a := b.requester(core.Exclusive)
		a.Lease = 100 * time.Millisecond
		c := b.call(b.e, a)
		b.wantWaiting("the call", c)
		b.wire.Cut()
		c.stop()
		<-c.done
		time.Sleep(30 * time.Second)
		b.wire.Restore()
		time.Sleep(2 * maxCancelDelay)
		if got := b.driver.Look().Writers(); len(got) > 0 {
			b.Errorf("%q wait", got)
		}
		b.release(h)
	})
}
