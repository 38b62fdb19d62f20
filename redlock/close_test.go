package redlock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockmw/go/lockmw"
)

// A lock is free when a quorum of nodes has released it.
func TestCloseReportsLocksThatAQuorumHasNotReleased(t *testing.T) {
	for away, fails := range []bool{false, false, true, true} {
		t.Run(fmt.Sprint("nodes away: ", away), func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p, other := b.process(), b.process()
				const n = 3
				for i := range n {
					_, _ = lock(b.T, p, fmt.Sprint("item:", i))
				}
				synctest.Wait() // until all nodes have answered
				for _, w := range p.wires[:away] {
					w.Cut()
				}
				err := p.Close()
				for i := range n {
					if _, _, err := other.TryLock(b.Context(), fmt.Sprint("item:", i)); errors.Is(err, lockmw.ErrBusy) != fails {
						b.Errorf("a try of another process after Close: %v", err)
					}
				}
				if !fails && err != nil {
					b.Errorf("Close: %v", err)
				}
				if fails && (!errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "expire: 3: ")) {
					b.Errorf("Close: %v, want ErrUnavailable that says that 3 locks are left", err)
				}
			})
		})
	}
}
