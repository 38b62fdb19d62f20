package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A process that died just before its turn is granted the lock nevertheless. Package fairlock states how long the next call then
// waits.
func TestADeadWaiterDelaysTheNextByItsAcceptWindow(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.driver.Fair("held")
		b.driver.Queue(true, "dead")
		next := b.call(b.e, b.requester(core.Fair))
		b.driver.Release("held")
		start := time.Now()
		<-next.done
		if took := time.Since(start); took < script.AcceptWindow || took > script.AcceptWindow+10*time.Millisecond {
			b.Errorf("the next one has the lock after %v", took)
		}
		b.release(b.wantGranted("the next one", next))
		b.wantFree()
	})
}
