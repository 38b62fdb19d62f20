package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
)

func TestReadersThatCallTogetherShareALease(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		const readers = 20
		var calls []*calling
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		for range readers {
			calls = append(calls, b.call(b.e, b.requester(core.Read)))
		}
		held.Deliver()
		b.wantSent("readers that call together", "acquire")
		first := b.wantGranted("the first", calls[0])
		for _, c := range calls {
			if h := b.wantGranted("one of them", c); h.lease != first.lease || h.Token() != first.Token() {
				b.Errorf("one has another lease, and token %d instead of %d", h.Token(), first.Token())
			}
		}
		if n := len(b.readers()); n != 1 {
			b.Errorf("the server has %d readers", n)
		}
		for _, c := range calls[1:] {
			b.release(c.grant)
		}
		b.wantSent("releases of all but one")
		if n := len(b.readers()); n != 1 {
			b.Errorf("the server has %d readers", n)
		}
		b.release(first)
		b.wantSent("the last release", "release")
		b.wantFree()
	})
}

// The server's word that no writer waits is good for a while.
func TestJoiningWhileSharingIsAllowedSendsNothing(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.read()
		b.wantSent("the first", "acquire")
		for range 3 {
			for range 50 {
				b.release(b.read())
			}
			b.wantSent("joins within the time for sharing")
			time.Sleep(shareFor - time.Millisecond)
			b.release(b.read())
			b.wantSent("a join just before its end")
			time.Sleep(time.Millisecond)
			held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
			var calls []*calling
			for range 10 {
				calls = append(calls, b.call(b.e, b.requester(core.Read)))
			}
			for _, c := range calls {
				b.wantWaiting("a join after the time for sharing", c)
			}
			held.Deliver()
			b.wantSent("joins after its end", "renew")
			for _, c := range calls {
				h := b.wantGranted("a join after its end", c)
				if h.lease != first.lease {
					b.Error("it has another lease")
				}
				b.release(h)
			}
		}
		b.release(first)
	})
}

func TestReadersWithOtherTermsHaveLeasesOfTheirOwn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		var grants []*hold
		for _, edit := range []func(r *core.Request){
			func(*core.Request) {},
			func(r *core.Request) { r.Lease = time.Minute },
			func(r *core.Request) { r.MaxHold = time.Hour },
			func(r *core.Request) { r.Fixed = true },
			func(r *core.Request) { r.Fixed = true },
		} {
			a := b.requester(core.Read)
			edit(&a.Request)
			grants = append(grants, a.acquire(b.T, b.e))
		}
		if n := len(b.readers()); n != len(grants) {
			b.Errorf("the server has %d readers, want %d", n, len(grants))
		}
		same := b.requester(core.Read)
		same.MaxHold = time.Hour
		h := same.acquire(b.T, b.e)
		if h.lease != grants[2].lease {
			b.Error("one with the same terms has another lease")
		}
		b.release(append(grants, h)...)
		b.wantFree()
	})
}

// The message comes before the end of the time for sharing.
func TestAWriterOfAnotherProcessEndsTheSharing(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		first := b.read()
		b.release(b.read())
		b.sent()
		start := time.Now()
		writer := b.call(other, b.requester(core.Write))
		b.wantWaiting("the writer", writer)
		reader := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("a reader that comes after a writer", reader)
		if waited := time.Since(start); waited >= shareFor {
			b.Fatalf("%v have passed", waited)
		}
		b.wantSent("a reader that comes after a writer", "acquire")
		try := b.requester(core.Read)
		try.Wait = 0
		if c := b.call(b.e, try); !c.returned() || !errors.Is(c.err, core.ErrBusy) {
			b.Errorf("a try to read: %v", c.err)
		}
		b.release(first)
		b.release(b.wantGranted("the writer", writer))
		h := b.wantGranted("the reader after the writer", reader)
		b.release(b.read(), h)
		b.wantFree()
		b.checkGone(other)
	})
}

// Without a message it is the next renewal that says so.
func TestTheNextRenewalEndsTheSharing(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.read()
		b.rdb.HSet(b.Context(), b.driver.Keys.Holder(), "wanted", 1)
		b.release(b.read())
		b.wantSent("a join within the time for sharing", "acquire")
		time.Sleep(shareFor)
		second := b.call(b.e, b.requester(core.Read)) // renews, learns that a writer waits, sends a request of its own, and is admitted
		h := b.wantGranted("a reader after the time for sharing", second)
		if h.lease == first.lease {
			b.Error("it shares a lease that a writer waits for")
		}
		b.wantSent("a reader after the time for sharing", "renew", "acquire")
		b.release(h, first)
		b.wantFree()
	})
}

// A process that no message of a writer would reach has to renew each time.
func TestWithoutASubscriptionEachJoinRenews(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.read()
		b.release(b.read())
		b.sent()
		b.wire.Withhold("subscribe", b.inbox().Name) // a new one does not come about
		b.e.inboxes.Resubscribe(b.inbox())
		synctest.Wait()
		if b.inbox().IsLive() {
			b.Fatal("still subscribed")
		}
		b.release(b.read()) // which is answered, so that all is renewed
		b.sent()
		for range 3 {
			b.release(b.read())
			b.wantSent("a join without a subscription", "renew")
		}
		b.release(first)
	})
}

// A message may have been missed between two subscriptions.
func TestANewSubscriptionMakesTheNextJoinRenew(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.read()
		b.release(b.read())
		b.sent()
		b.e.inboxes.Resubscribe(b.inbox())
		time.Sleep(inbox.MinRetryPause + time.Millisecond) // less than the time for sharing
		synctest.Wait()
		if !b.inbox().IsLive() {
			b.Fatal("not subscribed again")
		}
		b.release(b.read())
		b.wantSent("a join after a gap", "renew")
		b.release(b.read())
		b.wantSent("another one")
		b.release(first)
	})
}

// A message that a writer waits is newer than an answer that says that none does, if the call was sent
// before it came.
func TestAMessageIsNotForgottenForAnOlderAnswer(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		other := b.engine()
		first := b.read()
		time.Sleep(shareFor)
		held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
		join := b.call(b.e, b.requester(core.Read))
		<-held.Caught()
		time.Sleep(time.Millisecond)
		writer := b.call(other, b.requester(core.Write))
		b.wantWaiting("the writer", writer)
		held.Deliver()
		b.wantWaiting("one that joined before the writer came, and has to send a request of its own", join)
		late := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("a reader that comes after the writer", late)
		b.release(first)
		b.release(b.wantGranted("the writer", writer))
		b.release(b.wantGranted("the join", join), b.wantGranted("the late one", late))
	})
}

// A call may end while the answer that would admit it is in flight.
func TestAJoinThatEndsBeforeItsAnswer(t *testing.T) {
	for name, leaves := range map[string]bool{"together with others": false, "when the others have left": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				first := b.read()
				time.Sleep(shareFor)
				held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
				b.sent()
				join := b.call(b.e, b.requester(core.Read))
				<-held.Caught()
				if leaves {
					b.release(first)
					b.wantSent("the last one's release while another waits for the answer", "renew")
					if n := len(b.readers()); n != 1 {
						b.Errorf("the server has %d readers", n)
					}
				}
				join.stop()
				<-join.done
				if !errors.Is(join.err, context.Canceled) || !errors.Is(join.err, core.ErrBusy) {
					b.Errorf("a join that was cancelled: %v", join.err)
				}
				if leaves {
					b.wantFree()
				}
				held.Deliver()
				synctest.Wait()
				if !leaves {
					b.release(b.read())
					b.release(first)
				}
				b.wantFree()
			})
		})
	}
}

// The batch of releases is for plain holds: readers and downgraded holds are released one by one.
func TestReadersOfManyKeysThatLeaveTogether(t *testing.T) {
	onRig(t, func(r *rig) {
		r.warm()
		var all []result
		for i, key := range r.keys(12) {
			a := newRequester(key)
			if i%2 == 0 {
				a.Mode = core.Read
			}
			h := a.acquire(t, r.e)
			if err := h.Downgrade(r.Context()); err != nil {
				r.Fatalf("%s: %v", key, err)
			}
			all = append(all, result{key: key, requester: a, grant: h})
		}
		r.release(all)
		if left := r.left(); len(left) > 0 {
			r.Errorf("left on the server: %q", left)
		}
	})
}
