package engine

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
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

// What the server said is as old as the question.
func TestTheLicenceCountsFromTheQuestion(t *testing.T) {
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
		b.release(b.wantGranted("who waited for the answer", early))
		b.wantWaiting("who came after the question", late)
		b.wantSent("two questions", "renew", "renew")
		next.Deliver()
		h := b.wantGranted("who came after the question", late)
		if h.lease != first.lease {
			b.Error("it has another lease")
		}
		b.release(h, first)
		b.wantFree()
	})
}

// A lease that was kept for the answer is not kept any longer if that says that a writer waits.
func TestALeaseWithoutHoldsThatMayNotBeSharedIsReleased(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first, join, deliver := b.asking()
		b.release(first)
		time.Sleep(time.Millisecond)
		writer := b.call(b.engine(), b.requester(core.Write))
		b.wantWaiting("the writer", writer)
		deliver()
		h := b.wantGranted("the writer", writer)
		b.wantWaiting("the join", join)
		b.release(h)
		b.release(b.wantGranted("the join", join))
		b.wantFree()
	})
}

// Released on its own, it might be in the way of others for as long as that takes, though nobody has it.
func TestALeaseWithoutHoldsEndsWithTheRequestThatReplacesIt(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first, join, deliver := b.asking()
		b.release(first)
		time.Sleep(time.Millisecond)
		writer := b.call(b.engine(), b.requester(core.Write))
		b.wantWaiting("the writer", writer)
		b.sent()
		deliver()
		h := b.wantGranted("the writer", writer)
		b.wantWaiting("the join", join)
		b.wantSent("the end of the sharing", "acquire")
		b.release(h)
		b.release(b.wantGranted("the join", join))
		b.wantFree()
	})
}

// The lock may be free for readers by the time of the answer: only the server knows.
func TestATryBesideTheRequestThatReplacesASharedLeaseWaitsForTheAnswer(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first, join, deliver := b.asking()
		b.release(first)
		time.Sleep(time.Millisecond)
		writer := b.call(b.engine(), b.requester(core.Write))
		b.wantWaiting("the writer", writer)
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		deliver()
		<-held.Caught()
		try := b.requester(core.Read)
		try.Wait = 0
		c := b.call(b.e, try)
		b.wantWaiting("a try before the answer", c)
		held.Deliver()
		<-c.done
		if !errors.Is(c.err, core.ErrBusy) {
			b.Errorf("the try: %v, want ErrBusy, as a writer has the lock", c.err)
		}
		b.release(b.wantGranted("the writer", writer))
		b.release(b.wantGranted("the join", join))
		b.wantFree()
	})
}

// That a writer of this process waits is known before the server's message comes.
func TestAWriterOfTheSameProcessNeedsNoMessage(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		deliver := b.quiet()
		first := b.read()
		b.release(b.read())
		b.wantSent("two readers", "acquire")
		writer := b.call(b.e, b.requester(core.Write))
		reader := b.call(b.e, b.requester(core.Read))
		b.wantWaiting("the writer", writer)
		b.wantWaiting("a reader that comes after it", reader)
		deliver()
		b.release(first)
		b.release(b.wantGranted("the writer", writer))
		b.release(b.wantGranted("the reader", reader))
		b.wantFree()
	})
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

// Who joins has at least half a lease before him, whatever the server said of writers.
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
		if left := time.Until(first.Deadline()); first.Expired() || left > lease/2 {
			b.Fatalf("%v are left", left)
		}
		join := b.call(b.e, reader())
		b.wantWaiting("a join", join)
		b.wire.Restore()
		time.Sleep(lease / 6)
		h := b.wantGranted("the join when the server answers", join)
		if left := time.Until(h.Deadline()); left < lease/2 {
			b.Errorf("%v are left of its lease", left)
		}
		b.release(h, first)
		b.wantFree()
	})
}

// Who is subscribed only now may have missed a message since the question.
func TestASubscriptionIsWorthNothingToAnEarlierQuestion(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		b.e.inbox.mu.Lock()
		_ = b.e.inbox.pubsub.Close()
		b.e.inbox.mu.Unlock()
		synctest.Wait()
		held := b.wire.HoldReply(b.e.scripts.All()["acquire"].SHA)
		first := b.call(b.e, b.requester(core.Read))
		<-held.Caught()
		time.Sleep(inboxRetry + time.Millisecond)
		if synctest.Wait(); !b.e.inbox.live.Load() {
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
func TestSiblingsForgetCohortsThatAreGone(t *testing.T) {
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
		cohorts, readers := c.siblings.cohorts, len(c.siblings.readers)
		c.shard.mu.Unlock()
		if cohorts != 1 || readers != 1 {
			b.Errorf("it has %d cohorts, %d of readers", cohorts, readers)
		}
		b.release(first)
		b.wantFree()
	})
}

// The minimum hold of each reader counts, also among readers with the same one.
func TestReadersWithAMinimumHoldKeepTheirTime(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		start := time.Now()
		var grants []*hold
		for range 2 {
			a := b.requester(core.Read)
			a.MinHold = time.Second
			grants = append(grants, a.acquire(b.T, b.e))
			time.Sleep(time.Second / 2)
		}
		b.release(grants...)
		writer := b.call(b.engine(), b.requester(core.Write))
		<-writer.done
		synctest.Wait()
		if took := time.Since(start); took < 3*time.Second/2 || took > 3*time.Second/2+script.PollInterval {
			b.Errorf("the writer has it after %v", took)
		}
		b.release(b.wantGranted("the writer", writer))
		b.wantFree()
	})
}

// A lease that was kept for a join has no hold when the join is refused.
func TestShutdownReleasesALeaseThatWasKeptForAJoin(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		first, join, deliver := b.asking()
		b.release(first)
		if err := b.e.Shutdown(b.Context()); err != nil {
			b.Error(err)
		}
		if synctest.Wait(); !join.returned() || !errors.Is(join.err, core.ErrClosed) {
			b.Errorf("the join: returned %t, %v", join.returned(), join.err)
		}
		b.wantFree()
		deliver()
		b.wantFree()
	})
}

// What is left of a block of tokens is worth nothing after a downgrade.
func TestADowngradedBlockOfTokensIsNotPassedOn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		before := b.requester(core.Exclusive).acquire(b.T, b.e)
		first, next := b.call(b.e, b.requester(core.Exclusive)), b.call(b.e, b.requester(core.Exclusive))
		time.Sleep(time.Second) // tokens are taken of the time that has passed
		b.release(before)
		h := b.wantGranted("the first", first)
		if h.lease.next > h.lease.last {
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

// That the last one's maximum hold is over is no reason to let those wait longer who wait for the answer.
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
		inBubble(t, func(b *bubble) {
			b.warm()
			h := b.requester(mode).acquire(b.T, b.e)
			held := b.wire.HoldReply(b.e.scripts.All()["renew"].SHA)
			<-held.Caught()
			time.Sleep(time.Second)
			held.Deliver()
			synctest.Wait()
			server := b.rdb.PTTL(b.Context(), b.driver.Keys.Holder()).Val()
			if left := time.Until(h.Deadline()); left < scripttest.Lease/2 || left > server {
				b.Errorf("it takes itself to hold for %v, and does for %v", left, server)
			}
			b.release(h)
			b.wantFree()
		})
	}
}

// The lease that one reader wants does not become that of the others.
func TestExtendIsForOneOfTheReadersThatShare(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.warm()
		_, grants := b.sharers(2, nil)
		if err := grants[0].Extend(b.Context(), time.Hour); err != nil {
			b.Fatal(err)
		}
		b.release(grants[0])
		time.Sleep(2 * time.Hour)
		if left := b.rdb.PTTL(b.Context(), b.driver.Keys.Holder()).Val(); left > scripttest.Lease {
			b.Errorf("when that is over, the other one's lease is %v, want %v", left, scripttest.Lease)
		}
		b.release(grants[1])
		b.wantFree()
	})
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
		b.e.schedule.remove(&l.timer) // it is late
		time.Sleep(3 * time.Second)
		if _, err := first[0].Release(time.Second); !errors.Is(err, core.ErrLost) {
			b.Errorf("Release after its maximum hold: %v", err)
		}
		synctest.Wait()
		if len(requesters[0].lost) > 0 || second[0].Expired() || len(b.readers()) != 1 {
			b.Errorf("the other one is over: the server has %v", b.readers())
		}
		b.release(second...)
		b.wantFree()
	})
}

// Nobody waits until the lease of a hold runs out whose release got lost.
func TestAReleaseThatGotLostIsMadeUpFor(t *testing.T) {
	for name, mode := range map[string]core.Mode{"to write": core.Write, "to read": core.Read} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.warm()
				h := b.requester(mode).acquire(b.T, b.e)
				b.wire.Withhold(b.e.scripts.All()["release"].SHA)
				if _, err := h.Release(time.Second); !errors.Is(err, core.ErrUnavailable) {
					b.Errorf("Release: %v", err)
				}
				time.Sleep(scripttest.Lease / 3) // until the client gives up
				b.wantFree()
			})
		})
	}
}
