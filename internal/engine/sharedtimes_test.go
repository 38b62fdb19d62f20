package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A renewal that is not answered is sent again soon, even if the lease is long.
func TestARenewalThatIsNotAnsweredIsSentAgain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.read()
		time.Sleep(shareFor)
		b.sent()
		b.wire.Withhold(b.e.scripts.All()["renew"].SHA)
		ends := first.Deadline()
		join := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("a join whose question got lost", join)
		if got := first.Deadline(); got != ends {
			b.Errorf("renewed without an answer, it lasts %v longer", got.Sub(ends))
		}
		time.Sleep(script.PollInterval)
		b.release(b.wantGranted("a join", join), first)
		b.wantFree()
	})
}

// The end of the last reader's maximum hold must not delay the readers that wait for the answer.
func TestALeaseOutlivesTheMaximumHoldOfTheLastIfOthersWait(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		reader := func() *requester {
			a := b.requester(core.Read)
			a.MaxHold = 4 * time.Second
			return a
		}
		a := reader()
		first := a.acquire(b.T, b.e)
		time.Sleep(a.MaxHold - shareFor/2)
		b.sent()
		held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
		join := b.call(b.e, reader())
		b.wantWaiting("a join", join)
		time.Sleep(shareFor / 2)
		b.wantLost("the first", a, core.ErrLost)
		held.Deliver()
		h := b.wantGranted("the join", join)
		if h.lease != first.lease {
			b.Error("it has another lease")
		}
		b.wantSent("a join", "renew")
		b.release(h)
		b.wantFree()
	})
}

// However long the answer takes, the server counts from when it had the command.
func TestADeadlineCountsFromTheSendingOfARenewal(t *testing.T) {
	for _, mode := range []core.Mode{core.Write, core.Read} {
		t.Run(mode.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				h := b.requester(mode).acquire(b.T, b.e)
				held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
				<-held.Caught()
				time.Sleep(time.Second)
				held.Deliver()
				synctest.Wait()
				server := b.rdb.PTTL(b.Context(), b.driver.Keys.Holder()).Val()
				if left := clock.Until(h.Deadline()); left < scripttest.Lease/2 || left > server {
					b.Errorf("it takes itself to hold for %v, and does for %v", left, server)
				}
				b.release(h)
				b.wantFree()
			})
		})
	}
}

// It may notice before its timer does.
func TestOneThatReleasesTooLateTakesNothingFromTheOthers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		terms := func(r *core.Request) { r.MaxHold = 5 * time.Second }
		_, first := b.sharers(1, terms)
		time.Sleep(2 * time.Second)
		requesters, second := b.sharers(1, terms)
		l := second[0].lease
		if l != first[0].lease {
			b.Fatal("they have different leases")
		}
		b.e.schedule.Remove(&l.timer) // it is late
		time.Sleep(3 * time.Second)
		if _, err := first[0].Release(time.Second); !errors.Is(err, core.ErrLost) {
			b.Errorf("Release after its maximum hold: %v", err)
		}
		synctest.Wait()
		if len(requesters[0].lost) > 0 || second[0].Expired() || len(b.readers()) != 1 {
			b.Errorf("the other one has ended: the server has %v", b.readers())
		}
		b.release(second...)
		b.wantFree()
	})
}
