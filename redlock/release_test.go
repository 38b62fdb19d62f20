package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// A node that does not answer a release holds up nobody: enough others have.
func TestASilentNodeDoesNotHoldUpTheNextCallOfItsProcess(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process().warm()
		_, hold := lock(b.T, p, "item")
		synctest.Wait() // until all nodes have it
		p.wires[1].Silence()
		unlock(b.T, hold)
		start := time.Now()
		_, hold, err := p.TryLock(b.Context(), "item")
		if err != nil {
			b.Fatalf("a try after the release: %v after %v", err, time.Since(start))
		}
		if took := time.Since(start); took > 600*time.Millisecond { // a node's timeout is 500 ms
			b.Errorf("a try after the release took %v", took)
		}
		unlock(b.T, hold)
	})
}
