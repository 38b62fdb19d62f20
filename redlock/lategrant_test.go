package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
)

// A node whose grant arrives after the release would refuse the next call of the same process. That call waits a moment for a late
// node, but not for one that does not answer.
func TestTheNextCallOfAProcessWaitsForANodeThatIsLate(t *testing.T) {
	for name, answers := range map[string]bool{"it answers": true, "it does not": false} {
		inBubble(t, 3, func(b *bubble) {
			p := b.process().warm()
			late := p.wires[2].HoldReply("{item}")
			_, hold := lock(b.T, p, "item")
			<-late.Caught()
			usertest.Unlock(b, hold)
			for _, w := range p.wires {
				w.Record()
			}
			next := p.call("item")
			if next.returned() {
				b.Errorf("%s: the next call does not wait for it", name)
			}
			if answers {
				late.Deliver()
				synctest.Wait()
			} else {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			if !next.returned() || next.err != nil {
				b.Fatalf("%s: the next call continues to wait: %v", name, next.err)
			}
			if n := scripts(p.wires[2], "item"); answers && n != 2 { // the release of the late grant, and the next acquire
				b.Errorf("%s: the node was sent %d commands", name, n)
			}
			late.Deliver()
			usertest.Unlock(b, next.hold)
		})
	}
}
