package inbox_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/test/redistest"
)

// anew has the message of a grant be missing, and reports whether that leads to a new subscription.
func (b *bubble) anew(id string) bool {
	b.Helper()
	before := b.box.Subscription()
	b.all.Expect(id, b.box)
	time.Sleep(inbox.LateMessage + inbox.MinRetryPause)
	synctest.Wait()
	if !b.box.IsLive() {
		b.Fatal("not subscribed")
	}
	return b.box.Subscription() != before
}

// A poll has found a grant, and its message does not come within 250 ms: the subscription is dead, though its connection answers.
func TestASubscriptionThatMissesAMessageIsMadeAnew(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.subscribe(b.box)
		if err := b.all.Deafen(b.box); err != nil {
			b.Fatal(err)
		}
		b.publish("inbox", "grant 1")
		b.wantMessages()
		b.all.Expect("1", b.box)
		time.Sleep(inbox.LateMessage - time.Millisecond)
		if n := b.box.Subscription(); n != 1 {
			b.Errorf("it is subscription %d before the message is late", n)
		}
		time.Sleep(time.Millisecond + inbox.MinRetryPause)
		synctest.Wait()
		b.publish("inbox", "grant 2")
		b.wantMessages("inbox: grant 2")
		if n := b.box.Subscription(); n != 2 {
			b.Errorf("it is subscription %d", n)
		}
	})
}

func TestAMessageThatIsALittleLateIsEnough(t *testing.T) {
	for _, late := range []time.Duration{0, inbox.LateMessage - time.Millisecond} {
		inBubble(t, func(b *bubble) {
			b.subscribe(b.box)
			b.all.Expect("1", b.box)
			time.Sleep(late)
			b.all.Arrived("1")
			time.Sleep(time.Minute)
			if n := b.box.Subscription(); n != 1 {
				b.Errorf("after a message that is %v late it is subscription %d", late, n)
			}
		})
	}
}

func TestEachMissingMessageHasItsTime(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.subscribe(b.box)
		b.all.Expect("comes", b.box)
		time.Sleep(inbox.LateMessage / 2)
		b.all.Expect("late", b.box)
		time.Sleep(inbox.LateMessage / 4)
		b.all.Arrived("comes")
		time.Sleep(inbox.LateMessage*3/4 - time.Millisecond)
		if n := b.box.Subscription(); n != 1 {
			b.Errorf("it is subscription %d before a message is late", n)
		}
		time.Sleep(time.Millisecond + inbox.MinRetryPause)
		synctest.Wait()
		if n := b.box.Subscription(); n != 2 {
			b.Errorf("it is subscription %d though a message is missing", n)
		}
	})
}

// New subscriptions do not help against messages that are lost for another reason. So the pauses between them double, from 2 s to a
// minute, until a message comes.
func TestSubscriptionsAreMadeAnewAfterPausesThatDouble(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.subscribe(b.box)
		var times []time.Time
		for i := range 3000 {
			if b.anew(fmt.Sprint(i)) {
				times = append(times, time.Now())
			}
			if len(times) == 9 {
				break
			}
		}
		want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, inbox.MaxResubscribePause, inbox.MaxResubscribePause, inbox.MaxResubscribePause}
		for i, pause := range want {
			if i+1 >= len(times) {
				b.Fatalf("only %d new subscriptions", len(times))
			}
			if got := times[i+1].Sub(times[i]); got < pause || got > pause+inbox.LateMessage+inbox.MinRetryPause {
				b.Errorf("pause %d is %v, want %v", i, got, pause)
			}
		}
		time.Sleep(3 * time.Second)
		if b.anew("in the pause of a minute") {
			b.Error("the pause is not kept")
		}
		b.all.Arrived("a message that comes")
		if !b.anew("afterwards") {
			b.Error("the pause is still long after a message has come")
		}
	})
}

// A connection that brings nothing for a while is tested by a PING.
func TestASilentConnectionIsTested(t *testing.T) {
	const silence = time.Second
	inBubble(t, func(b *bubble) {
		b.all.SetPingAfter(silence)
		b.subscribe(b.box)
		pings := func() int {
			synctest.Wait()
			n := 0
			for _, c := range b.wire.Sent() {
				if slices.Equal(c, redistest.Command{"ping"}) {
					n++
				}
			}
			b.wire.Record()
			return n
		}
		b.wire.Record()
		for range 10 {
			time.Sleep(silence - time.Millisecond)
			b.publish("inbox", "grant 1")
		}
		if n := pings(); n > 0 {
			b.Errorf("%d PINGs though messages come", n)
		}
		time.Sleep(10*silence + time.Millisecond)
		if n := pings(); n != 10 {
			b.Errorf("%d PINGs within %v of silence", n, 10*silence)
		}
		if n := b.box.Subscription(); n != 1 {
			b.Errorf("it is subscription %d though the PINGs are answered", n)
		}
	})
}

// If the PING is not answered in the same time, the connection is replaced.
func TestAConnectionThatDoesNotAnswerIsReplaced(t *testing.T) {
	const silence = time.Second
	inBubble(t, func(b *bubble) {
		b.all.SetPingAfter(silence)
		b.subscribe(b.box)
		b.tries()
		b.wire.Swallow()
		time.Sleep(2*silence - time.Millisecond)
		if !b.box.IsLive() {
			b.Error("the connection is given up before the PING could be answered")
		}
		time.Sleep(2*time.Millisecond + inbox.MinRetryPause)
		if b.box.IsLive() {
			b.Error("the connection is not given up")
		}
		if tries := b.tries(); len(tries) != 1 {
			b.Errorf("tries at %v, want one", tries)
		}
		b.wire.Restore()
		time.Sleep(10 * time.Second)
		b.publish("inbox", "grant 1")
		b.wantMessages("inbox: grant 1")
	})
}
