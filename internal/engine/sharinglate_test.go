package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
)

// Answers that come late, and messages that come later still.

// asking has one that reads, and another that joins after the time for sharing: its renewal has been answered,
// but the answer is not here yet.
func (b *bubble) asking() (first *hold, join *calling, deliver func()) {
	b.Helper()
	first = b.read()
	time.Sleep(shareFor)
	b.sent()
	held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
	join = b.call(b.e, b.requester(core.Read))
	<-held.Caught()
	return first, join, held.Deliver
}

// quiet keeps messages from the engine, which takes itself for subscribed, until they are let through.
func (b *bubble) quiet() (deliver func()) {
	b.Helper()
	held := b.wire.HoldReply("ping")
	b.Cleanup(held.Deliver)
	<-held.Caught()
	return held.Deliver
}

// The server's answer is as old as the question.
func TestSharingIsAllowedFromTheQuestionOn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first, join, deliver := b.asking()
		time.Sleep(shareFor / 2)
		deliver()
		h := b.wantGranted("the join", join)
		b.wantSent("a join", "renew")
		time.Sleep(shareFor/2 - time.Millisecond)
		b.release(b.read())
		b.wantSent("a join just before the end of the time for sharing")
		time.Sleep(time.Millisecond)
		b.release(b.read())
		b.wantSent("a join after its end", "renew")
		b.release(h, first)
		b.wantFree()
	})
}

// An answer that is older than the time for sharing says nothing to readers that came after its call.
func TestAnOldAnswerIsForReadersThatWaitedForIt(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first, early, deliver := b.asking()
		time.Sleep(shareFor)
		late := b.call(b.e, b.requester(core.Read))
		next := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
		deliver()
		b.release(b.wantGranted("a call that waited for the answer", early))
		b.wantWaiting("a call that came after the question", late)
		b.wantSent("two questions", "renew", "renew")
		next.Deliver()
		h := b.wantGranted("a call that came after the question", late)
		if h.lease != first.lease {
			b.Error("it has another lease")
		}
		b.release(h, first)
		b.wantFree()
	})
}

// That a writer of this process waits is known before the server's message comes.
func TestAWriterOfTheSameProcessNeedsNoMessage(t *testing.T) {
	for _, mode := range []core.Mode{core.Write, core.Fair, core.Exclusive} {
		t.Run(mode.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				deliver := b.quiet()
				first := b.read()
				b.release(b.read())
				b.wantSent("two readers", "acquire")
				writer := b.call(b.e, b.requester(mode))
				b.sent()
				reader := b.call(b.e, b.requester(core.Read))
				b.wantWaiting("the writer", writer)
				b.wantWaiting("a reader that comes after it", reader)
				b.wantSent("a reader that comes after it", "acquire")
				deliver()
				b.release(first)
				h := b.wantGranted("the writer", writer)
				b.wantWaiting("the reader", reader)
				b.release(h)
				b.release(b.wantGranted("the reader", reader))
				b.wantFree()
			})
		})
	}
}

func TestAWriterOfTheSameProcessIsNotForgottenForAnOlderAnswer(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		quiet := b.quiet()
		first, join, deliver := b.asking()
		time.Sleep(time.Millisecond)
		writer := b.call(b.e, b.requester(core.Write))
		b.wantWaiting("the writer", writer)
		deliver()
		b.wantWaiting("one that joined before the writer came, and has to send a request of its own", join)
		quiet()
		b.release(first)
		b.release(b.wantGranted("the writer", writer))
		b.release(b.wantGranted("the join", join))
		b.wantFree()
	})
}

// A reader that joins has at least half a lease left, whatever the server has answered about writers.
func TestALeaseThatIsAboutToEndIsNotJoinedWithoutARenewal(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		const lease = 3 * shareFor / 2
		reader := func() *requester {
			a := b.requester(core.Read)
			a.Lease = lease
			return a
		}
		first := reader().acquire(b.T, b.e)
		b.sent()
		b.wire.Silence() // renewals are not answered
		time.Sleep(lease * 6 / 10)
		if left := clock.Until(first.Deadline()); first.Expired() || left > lease/2 {
			b.Fatalf("%v are left", left)
		}
		join := b.call(b.e, reader())
		b.wantWaiting("a join", join)
		b.wire.Restore()
		time.Sleep(lease / 6)
		h := b.wantGranted("the join when the server answers", join)
		if left := clock.Until(h.Deadline()); left < lease/2 {
			b.Errorf("%v are left of its lease", left)
		}
		b.release(h, first)
		b.wantFree()
	})
}

// A process that has just subscribed may have missed a message since the question.
func TestASubscriptionIsWorthNothingToAnEarlierQuestion(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.e.inboxes.Resubscribe(b.inbox())
		synctest.Wait()
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		first := b.call(b.e, b.requester(core.Read))
		<-held.Caught()
		time.Sleep(inbox.MinRetryPause + time.Millisecond)
		if synctest.Wait(); !b.inbox().IsLive() {
			b.Fatal("not subscribed again")
		}
		held.Deliver()
		b.wantGranted("the first", first)
		b.wantSent("the first", "acquire")
		b.release(b.read())
		b.wantSent("a join", "renew")
		b.release(b.read())
		b.wantSent("another one")
		b.release(first.grant)
		b.wantFree()
	})
}

// Readers of one key come and go with many terms, while some are always there.
func TestAnEntryDropsCohortsThatHaveEnded(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first := b.read()
		for i := range 5 {
			a := b.requester(core.Read)
			a.MaxHold = time.Hour + time.Duration(i)
			b.release(a.acquire(b.T, b.e))
		}
		c := first.lease.c
		c.shard.mu.Lock()
		cohorts, readers := c.n, len(c.readers)
		c.shard.mu.Unlock()
		if cohorts != 1 || readers != 1 {
			b.Errorf("it has %d cohorts, %d of readers", cohorts, readers)
		}
		b.release(first)
		b.wantFree()
	})
}

// The rest of a token block is of no use after a downgrade.
func TestADowngradedBlockOfTokensIsNotPassedOn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		before := b.requester(core.Exclusive).acquire(b.T, b.e)
		first, next := b.call(b.e, b.requester(core.Exclusive)), b.call(b.e, b.requester(core.Exclusive))
		time.Sleep(time.Second) // tokens are taken of the time that has passed
		b.release(before)
		h := b.wantGranted("the first", first)
		if h.lease.tokens.IsEmpty() {
			b.Fatal("it has no token for the next one")
		}
		if err := h.Downgrade(b.Context()); err != nil {
			b.Fatal(err)
		}
		r := b.requester(core.Read).acquire(b.T, b.engine())
		b.release(h)
		b.wantWaiting("the next one, while another process reads", next)
		b.release(r)
		b.release(b.wantGranted("the next one", next))
		b.wantFree()
	})
}
