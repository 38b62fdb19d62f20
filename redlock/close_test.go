package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/lockmw/go/lockmw"
)

// A lock is free when a quorum of nodes has released it.
func TestCloseReportsLocksThatAQuorumHasNotReleased(t *testing.T) {
	for down, fails := range []bool{false, false, true, true} {
		t.Run(fmt.Sprint("unreachable nodes: ", down), func(t *testing.T) {
			inBubble(t, 3, func(b *bubble) {
				p, other := b.process(), b.process()
				const n = 3
				for i := range n {
					_, _ = lock(b.T, p, fmt.Sprint("item:", i))
				}
				synctest.Wait() // until all nodes have answered
				for _, w := range p.wires[:down] {
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
				if fails && (!errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "3 locks not released")) {
					b.Errorf("Close: %v, want ErrUnavailable with the 3 locks that are left", err)
				}
			})
		})
	}
}

// An Unlock between Close and the callback of the hold's observer returns ErrClosed.
func TestAHoldThatCloseEndsIsNotReportedAsExpired(t *testing.T) {
	inBubble(t, 3, func(b *bubble) {
		p := b.process()
		var holds [2]*lockmw.Hold
		var called atomic.Bool
		unlockOther := lockmw.WithObserver(&lockmw.Observer{Lost: func(_ context.Context, a lockmw.Attempt, _ error) {
			if called.Swap(true) {
				return
			}
			for _, h := range holds {
				if err := h.Unlock(); h.Key() != a.Key && (!errors.Is(err, lockmw.ErrClosed) || errors.Is(err, lockmw.ErrLost)) {
					b.Errorf("Unlock: %v, want ErrClosed", err)
				}
			}
		}})
		for i := range holds {
			_, holds[i] = lock(b.T, p, fmt.Sprint("item:", i), unlockOther)
		}
		synctest.Wait() // until all nodes have answered
		if err := p.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
	})
}
