package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/scripttest"
)

// permit wants one of n permits.
func (b *bubble) permit(n int) *requester {
	a := b.requester(core.Permit)
	a.Permits, a.Weight = n, 1
	return a
}

// until is what time has passed when a call returns. It has the lock then.
func (b *bubble) until(c *calling, since time.Time) time.Duration {
	b.Helper()
	<-c.done
	took := time.Since(since)
	b.release(b.wantGranted("the call", c))
	return took
}

// passesAway has a process that is gone have the only permit.
func (b *bubble) passesAway(lease time.Duration) (since time.Time) {
	b.Helper()
	b.driver.AcquirePermit(scripttest.Permit{ID: "gone", N: 1, Lease: lease})
	return time.Now()
}

// One call of a process asks when the first permit may have ended, and all others at their own times.
func TestTheEndOfAPermitIsFoundImmediatelyByOneCall(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warmPermits()
		since := b.passesAway(script.PollInterval / 2)
		var calls []*calling
		for range 3 {
			calls = append(calls, b.call(b.e, b.permit(1)))
		}
		b.wire.Record()
		took := b.until(calls[0], since)
		if took > script.PollInterval/2+10*time.Millisecond {
			b.Errorf("a permit that had ended was granted after %v", took)
		}
		polls := 0
		poll := b.scripts()["permit_poll"]
		for _, c := range b.wire.Sent() {
			if c.IsScript() && (c[1] == poll.SHA || c[1] == poll.Source) {
				polls++
				if len(c) != 3+5+1+3 { // of one ticket
					b.Errorf("several calls ask at the same time: %q", c)
				}
			}
		}
		if polls != 1 {
			b.Errorf("%d polls, want 1", polls)
		}
		b.until(calls[1], since)
		b.until(calls[2], since)
	})
}

// If the one that asks gives up, another one does.
func TestAnotherCallAsksForPermitsThatEnd(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warmPermits()
		const lease = 2*script.PollInterval + script.PollInterval/2
		since := b.passesAway(lease)
		first, second := b.call(b.e, b.permit(1)), b.call(b.e, b.permit(1))
		time.Sleep(script.PollInterval / 4)
		first.stop()
		<-first.done
		if took := b.until(second, since); took > lease+10*time.Millisecond {
			b.Errorf("a permit that had ended was granted after %v", took)
		}
	})
}

// The limit of waiters does not count calls that may be granted a permit immediately.
func TestOnlyQueuedRequestsForPermitsAreWaiters(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warmPermits()
		limited := func() *requester {
			a := b.permit(3)
			a.MaxWaiters = 1
			return a
		}
		begin := func() (calls []*calling) { // all together
			var replies []*redistest.Fault
			for range 3 {
				replies = append(replies, b.wire.HoldReply(b.scripts()["permit_acquire"].SHA))
				calls = append(calls, b.call(b.e, limited()))
			}
			for _, reply := range replies {
				reply.Deliver()
			}
			synctest.Wait()
			return calls
		}
		var holds []*hold
		for _, c := range begin() {
			holds = append(holds, b.wantGranted("one of three permits", c))
		}
		waits, refused := []*calling(nil), 0
		for _, c := range begin() {
			switch {
			case !c.returned():
				waits = append(waits, c)
			case errors.Is(c.err, core.ErrTooManyWaiters):
				refused++
			default:
				b.Errorf("%v", c.err)
			}
		}
		b.sent()
		late := b.call(b.e, limited())
		if len(waits) != 1 || refused != 2 || !errors.Is(late.err, core.ErrTooManyWaiters) {
			b.Fatalf("%d wait and %d were refused; one more: %v", len(waits), refused, late.err)
		}
		b.wantSent("a call that this process knows to be too many")
		b.release(holds[0])
		b.release(b.wantGranted("the waiter", waits[0]))
		b.release(holds[1:]...)
	})
}

// Answers come in another order than the grants of permits that they tell of. A lock's would be of a counter that is lost.
func TestAnOlderTokenOfAnotherPermitIsNotStale(t *testing.T) {
	for mode, old := range map[core.Mode]bool{core.Permit: false, core.Fair: true} {
		t.Run(mode.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				a := b.permit(2)
				if mode != core.Permit {
					a = b.requester(mode)
				}
				h := a.acquire(b.T, b.e)
				h.lease.c.shard.mu.Lock()
				all := h.lease.c.entry
				all.greatest = h.Token() + 1
				r := &request{c: h.lease.c, leader: &localq.Waiter{Req: h.Req}}
				if got := r.isStale(script.Grant{Token: h.Token()}); got != old {
					b.Errorf("in mode %v an older token counts as old: %t", mode, got)
				}
				all.greatest = h.Token()
				h.lease.c.shard.mu.Unlock()
				b.release(h)
			})
		})
	}
}

// Permits that are released together do not share the batch script of locks, which does not handle permits.
func TestPermitsAreReleasedOneByOne(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warmPermits()
		h := b.permit(1).acquire(b.T, b.e)
		r := &release{l: h.lease}
		if r.isPlain() {
			b.Error("a release of a permit is as that of a lock")
		}
		b.release(h)
	})
}
