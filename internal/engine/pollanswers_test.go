package engine

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
	"github.com/lockmw/go/internal/transport"
)

// A poll's answer is news as well: what was published before it is not relied on any more.
func TestAPushThatIsOlderThanAPollDoesNotStartAHold(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write})
		waits := b.call(b.e, b.requester(core.Write))
		b.wantWaiting("one", waits)
		r := b.e.ids.requests()[0]
		old := r.stamp + 1
		time.Sleep(time.Millisecond)
		b.rdb.Set(b.Context(), b.driver.Keys.Fence(), old, 0) // as of an ended hold
		time.Sleep(script.PollInterval)
		b.rdb.Publish(b.Context(), b.inbox().Name, b.e.prove(fmt.Sprintf("grant %s %d %d 1 0 %s", r.id, old, old, b.driver.Keys.Holder())))
		b.wantWaiting("a call with the message of an expired grant", waits)
		b.driver.Release("held")
		b.release(b.wantGranted("one", waits))
		b.wantFree()
	})
}

// Polls may have been refused for so long that the hold would be over before it is renewed.
func TestAPushLateInTheAcceptWindowIsAskedFor(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write})
		waits := b.call(b.e, b.requester(core.Write))
		b.wantWaiting("one", waits)
		b.s.Mini.SetError("MISCONF Errors writing to the AOF file: No space left on device")
		r := b.e.ids.requests()[0]
		time.Sleep(clock.Until(r.acceptBy) - 20*time.Millisecond)
		b.s.Mini.SetError("")
		b.driver.Release("held")
		released := clock.Now()
		<-waits.done
		h := b.wantGranted("one", waits)
		if took := clock.Since(released); took > 10*time.Millisecond {
			b.Errorf("it has the lock after %v", took)
		}
		if left := clock.Until(h.Deadline()); left < script.AcceptWindow/2 {
			b.Errorf("it has the lock for %v", left)
		}
		b.release(h)
		b.wantFree()
	})
}

// A holder whose lease has expired does not return: the next poll does not wait longer than that.
func TestTheNextPollComesWhenTheHoldEnds(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		const lease = script.PollInterval / 4
		b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write, Lease: lease})
		start := time.Now()
		waits := b.call(b.e, b.requester(core.Read))
		<-waits.done
		if took := time.Since(start); took < lease || took > lease+10*time.Millisecond {
			b.Errorf("it has the lock after %v, want %v", took, lease)
		}
		if sent := b.sent(); sent["peek"] != 0 {
			b.Errorf("a peek comes first: %v", sent)
		}
		b.release(b.wantGranted("it", waits))
		b.wantFree()
	})
}

func TestAPollThatIsRefusedEndsTheWait(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write})
		waits := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("one", waits)
		b.rdb.Set(b.Context(), b.driver.Keys.Holder(), "a stranger's", 0)
		time.Sleep(script.PollInterval)
		if synctest.Wait(); !waits.returned() || !errors.Is(waits.err, core.ErrWrongType) {
			b.Errorf("returned %t, %v", waits.returned(), waits.err)
		}
		b.rdb.Del(b.Context(), b.driver.Keys.Holder())
		b.wantFree()
	})
}

// Without the message it is the poll that sets the lease.
func TestAPollThatGrantsSetsTheLease(t *testing.T) {
	for name, mode := range map[string]core.Mode{"to write": core.Write, "to read": core.Read} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write})
				deliver := b.quiet()
				waits := b.call(b.e, b.requester(mode))
				b.wantWaiting("one", waits)
				b.driver.Release("held")
				b.wantWaiting("one without the message", waits)
				time.Sleep(script.PollInterval)
				h := b.wantGranted("one", waits)
				server := b.rdb.PTTL(b.Context(), b.driver.Keys.Holder()).Val()
				if mode == core.Read {
					server = b.driver.Ends(h.lease.id.String()).Sub(b.driver.Look().Now)
				}
				if left := clock.Until(h.Deadline()); left < scripttest.Lease/2 || left > server {
					b.Errorf("it takes itself to hold for %v, and does for %v", left, server)
				}
				deliver()
				b.release(h)
				b.wantFree()
			})
		})
	}
}

// One that gets lost is followed by another.
func TestAPollThatIsNotAnsweredIsFollowedByAnother(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Write})
		deliver := b.quiet()
		waits := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("one", waits)
		b.driver.Release("held")
		b.wire.Withhold(b.e.scripts.All()["poll"].SHA)
		time.Sleep(script.PollInterval)
		b.wantWaiting("a call whose poll was lost", waits)
		time.Sleep(script.PollInterval)
		h := b.wantGranted("one", waits)
		deliver()
		b.release(h)
		b.wantFree()
	})
}

// A poll may be answered when its call has ended, and its cancel was refused: it has made the lease of the grant whole.
func TestALatePollThatFindsAnUnwantedGrantIsFollowedByACancel(t *testing.T) {
	late := func(r *request) {
		r.onPolled(&transport.Reply{}, &script.Polled{}, &script.TicketAnswer{Outcome: script.Held})
	}
	inBubble(t, func(b *bubble) {
		b.warm()
		b.driver.Fair("held")
		c := b.call(b.e, b.requester(core.Fair))
		r := b.e.ids.requests()[0]
		c.stop()
		b.sent()
		late(r)
		if n := b.sent()["cancel"]; n != 1 {
			b.Errorf("%d cancels", n)
		}

		c = b.call(b.e, b.requester(core.Fair))
		r = b.e.ids.requests()[0]
		b.driver.Release("held")
		h := b.wantGranted("the call", c)
		b.sent()
		late(r)
		if n := b.sent()["cancel"]; n != 0 {
			b.Errorf("%d cancels of a grant that is in use", n)
		}
		b.release(h)
	})
}
