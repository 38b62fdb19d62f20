package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// The cancel is lost, and the ticket is granted the permit: the message of that grant leads to an immediate release.
func TestAPermitForACallThatHasLeftIsGivenBackImmediately(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warmPermits()
		const lease = script.PollInterval / 2
		since := b.passesAway(lease)
		first, second := b.call(b.e, b.permit(1)), b.call(b.e, b.permit(1))
		b.wire.Withhold(b.e.scripts.All()["permit_cancel"].SHA)
		first.stop()
		<-first.done
		if took := b.until(second, since); took > 2*script.PollInterval {
			b.Errorf("the next call was granted the permit after %v", took)
		}
	})
}

// Many tickets of dead processes are in front of the call. One execution of a script removes only some of them, and the next one
// follows immediately.
func TestManyDeadTicketsForPermitsDoNotDelayTheQueue(t *testing.T) {
	queue := func(b *bubble) *calling {
		for i := range 500 {
			b.driver.AcquirePermit(scripttest.Permit{ID: fmt.Sprint("dead", i), N: 1})
		}
		c := b.call(b.e, b.permit(1))
		time.Sleep(script.DeadAfter + script.BeatInterval + 10*time.Millisecond) // all but the last are dead, and no poll has met them since
		return c
	}
	t.Run("release", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			b.warmPermits()
			h := b.permit(1).acquire(b.T, b.e)
			c := queue(b)
			since := time.Now()
			b.release(h)
			if took := b.until(c, since); took > 10*time.Millisecond {
				b.Errorf("the call was granted the permit after %v", took)
			}
		})
	})
	t.Run("poll", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			b.warmPermits()
			const lease = script.DeadAfter + script.BeatInterval + 50*time.Millisecond
			since := b.passesAway(lease)
			if took := b.until(queue(b), since); took > lease+10*time.Millisecond {
				b.Errorf("the call was granted the permit after %v", took)
			}
		})
	})
}

// A call that waits for a permit is not notified of holds of its own process, because others also have permits.
func TestAPermitOfTheSameProcessIsNotReported(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 0} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				var holds []*hold
				for range n {
					holds = append(holds, b.permit(n).acquire(b.T, b.e))
				}
				s := &stalls{requester: b.permit(n)}
				s.Events = s
				c := b.call(b.e, s.requester)
				time.Sleep(10 * core.SelfWaitAfter)
				b.release(holds...)
				b.release(b.wantGranted("the call", c))
				if s.n != want {
					b.Errorf("of %d permits: it was notified of %d holds, want %d", n, s.n, want)
				}
			})
		})
	}
}

type stalls struct {
	*requester
	n int
}

func (s *stalls) SelfWait(core.LocalHold) { s.n++ }
