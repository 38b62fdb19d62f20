package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/script"
)

// A deaf engine is one whose subscription brings nothing any more, though its connection answers.
type deaf struct{ *bubble }

func (b *deaf) becomeDeaf() {
	b.Helper()
	if err := b.e.inboxes.Deafen(b.inbox()); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

// handOver has the driver hold the lock, and hand it to a call that waits. before is called while it waits.
func (b *deaf) handOver(before func()) *calling {
	b.Helper()
	b.driver.Fair("held")
	c := b.call(b.e, b.requester(core.Fair))
	time.Sleep(script.PollInterval + time.Millisecond) // it is subscribed when a poll finds it waiting
	b.wantWaiting("the call", c)
	before()
	b.driver.Release("held")
	return c
}

// byPoll is handOver of a lock by a poll, because the engine is deaf.
func (b *deaf) byPoll() {
	b.Helper()
	c := b.handOver(b.becomeDeaf)
	b.wantWaiting("a call that no message has reached", c)
	time.Sleep(script.PollInterval + time.Millisecond)
	b.release(b.wantGranted("the call, by a poll", c))
}

// byMessage is handOver as it should be.
func (b *deaf) byMessage() {
	b.Helper()
	b.release(b.wantGranted("the call, by a message", b.handOver(func() {})))
}

func (b *deaf) wantSubscription(n int64) {
	b.Helper()
	if got := b.inbox().Subscription(); got != n {
		b.Errorf("it is subscription %d, want %d", got, n)
	}
}

func TestASubscriptionThatBringsNothingIsMadeAnew(t *testing.T) {
	inBubble(t, func(bubble *bubble) {
		b := deaf{bubble}
		b.warm()
		b.byMessage()
		b.byPoll()
		b.wantSubscription(1)
		time.Sleep(inbox.LateMessage + inbox.MinRetryPause + time.Millisecond)
		b.wantSubscription(2)
		b.byMessage()
		time.Sleep(inbox.MaxResubscribePause)
		b.wantSubscription(2)
	})
}

func TestASubscriptionIsNotMadeAnewAgainAndAgain(t *testing.T) {
	inBubble(t, func(bubble *bubble) {
		b := deaf{bubble}
		b.warm()
		start := time.Now()
		for time.Since(start) < 5*inbox.MaxResubscribePause {
			b.byPoll()
			time.Sleep(inbox.LateMessage + inbox.MinRetryPause + time.Millisecond)
		}
		if n := b.inbox().Subscription(); n < 9 || n > 12 {
			b.Errorf("%d subscriptions in %v", n, time.Since(start))
		}
	})
}

func TestAMessageThatComesAfterThePollIsEnough(t *testing.T) {
	inBubble(t, func(bubble *bubble) {
		b := deaf{bubble}
		b.warm()
		b.byMessage()
		id := b.e.idStem.New(1000).String()
		b.e.inboxes.Expect(id, b.inbox())
		time.Sleep(inbox.LateMessage / 2)
		b.forge(b.e.prove("grant " + id + " 1 1 1 0 " + b.driver.Keys.Holder()))
		time.Sleep(inbox.LateMessage + inbox.MinRetryPause)
		b.wantSubscription(1)
	})
}

// A subscription is not blamed for messages that were published before it began.
func TestAnEarlierGrantIsNotHeldAgainstASubscription(t *testing.T) {
	inBubble(t, func(bubble *bubble) {
		b := deaf{bubble}
		b.warm()
		c := b.handOver(func() {
			b.wire.Cut()
			synctest.Wait()
		})
		b.wire.Restore()
		time.Sleep(script.PollInterval)
		b.release(b.wantGranted("the call, by a poll", c))
		time.Sleep(inbox.LateMessage + 2*inbox.MinRetryPause)
		b.wantSubscription(2)
	})
}
