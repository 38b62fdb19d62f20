package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// wantNoPermits checks that the server has nothing of the key any more.
func (b *bubble) wantNoPermits(what string) {
	b.Helper()
	synctest.Wait()
	keys := b.driver.Keys
	if n := b.rdb.Exists(b.Context(), keys.Holder(), keys.PermitQueue(), keys.PermitTickets()).Val(); n > 0 {
		b.Errorf("%s: permits or tickets are left", what)
	}
}

func TestACallForAPermitThatIsCancelledLeavesNoTicket(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.permit(1).acquire(b.T, b.e)
		c := b.call(b.e, b.permit(1))
		c.stop()
		<-c.done
		synctest.Wait()
		if n := b.rdb.ZCard(b.Context(), b.driver.Keys.PermitQueue()).Val(); n > 0 {
			b.Errorf("%d tickets are left", n)
		}
		b.release(h)
		b.wantNoPermits("after the release")
	})
}

// It is given back in the background.
func TestAPermitWhoseReleaseFailedIsGivenBack(t *testing.T) {
	inBubble(t, func(b *bubble) {
		h := b.permit(1).acquire(b.T, b.e)
		b.wire.Cut()
		if _, err := h.Release(time.Second); err == nil {
			b.Error("no error of a release without a server")
		}
		b.wire.Restore()
		time.Sleep(h.Req.Lease / 3)
		b.wantNoPermits("a while later")
	})
}

// The cancel gets lost, and the ticket is granted the permit: the message of that has the permit given back at once.
func TestAPermitForACallThatIsGoneIsGivenBackAtOnce(t *testing.T) {
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

// Many tickets of processes that are gone stand before the call. One run of a script takes only some of them off, and the next
// one follows at once.
func TestManyDeadTicketsForPermitsDoNotHoldUpTheQueue(t *testing.T) {
	queue := func(b *bubble) *calling {
		for i := range 500 {
			b.driver.AcquirePermit(scripttest.Permit{ID: fmt.Sprint("dead", i), N: 1})
		}
		c := b.call(b.e, b.permit(1))
		time.Sleep(3*script.PollInterval + time.Millisecond) // all but the last are dead, and no poll has met them since
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
			const lease = 4*script.PollInterval + script.PollInterval/2
			since := b.passesAway(lease)
			if took := b.until(queue(b), since); took > lease+10*time.Millisecond {
				b.Errorf("the call was granted the permit after %v", took)
			}
		})
	})
}

// A message of a grant leaves out long lists of slots, which the next answer has.
func TestAPermitHasAllItsSlots(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warmPermits()
		const n = 300
		var odd, even []*hold
		for i := range n {
			h := b.permit(n).acquire(b.T, b.e)
			if i%2 == 0 {
				even = append(even, h)
			} else {
				odd = append(odd, h)
			}
		}
		a := b.permit(n)
		a.Weight = n / 2
		c := b.call(b.e, a)
		b.release(even...)
		h := b.wantGranted("half of the permits", c)
		if slots := h.Slots(); len(slots) != n/2 || slots[1] != 2 {
			b.Errorf("its slots are %v", slots)
		}
		b.release(h)
		b.release(odd...)
		b.wantNoPermits("after the releases")
	})
}

// A call that waits for a permit is not told of holds of its own process: others have permits, too.
func TestAPermitOfTheSameProcessIsNotToldOf(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 0} {
		inBubble(t, func(b *bubble) {
			var holds []*hold
			for range n {
				holds = append(holds, b.permit(n).acquire(b.T, b.e))
			}
			s := &stalls{requester: b.permit(n)}
			s.Events = s
			c := b.call(b.e, s.requester)
			time.Sleep(10 * core.StallAfter)
			b.release(holds...)
			b.release(b.wantGranted("the call", c))
			if s.n != want {
				b.Errorf("of %d permits: it was told of %d holds, want %d", n, s.n, want)
			}
		})
	}
}

type stalls struct {
	*requester
	n int
}

func (s *stalls) Stalled(core.LocalHold) { s.n++ }
