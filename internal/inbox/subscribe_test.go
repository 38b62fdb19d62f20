package inbox_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/inbox"
)

func TestAnInboxIsSubscribedToFromItsFirstUse(t *testing.T) {
	inBubble(t, func(b *bubble) {
		time.Sleep(time.Second)
		if tries := b.tries(); len(tries) > 0 || b.box.IsLive() {
			b.Errorf("before its use there are connections: %v; it is live: %t", tries, b.box.IsLive())
		}
		b.publish("inbox", "too early")
		b.subscribe(b.box)
		b.subscribe(b.box) // which changes nothing
		b.publish("inbox", "grant 1")
		b.wantMessages("inbox: grant 1")
		if tries := b.tries(); len(tries) != 1 || b.all.Count() != 1 {
			b.Errorf("there are %d connections, with %d subscriptions", len(tries), b.all.Count())
		}
	})
}

// However often it was subscribed to before.
func TestAMessageIsDeliveredOnce(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.subscribe(b.box)
		for range 3 {
			b.publish("inbox", "grant 1", "grant 2")
			b.wantMessages("inbox: grant 1", "inbox: grant 2")
			b.all.Resubscribe(b.box)
			time.Sleep(inbox.MinRetryPause)
			synctest.Wait()
		}
	})
}

func TestInboxesOfAServerShareAConnection(t *testing.T) {
	inBubble(t, func(b *bubble) {
		boxes := []*inbox.Inbox{b.box, inbox.New("second"), inbox.New("third")}
		b.subscribe(boxes[0])
		b.subscribe(boxes...)
		if connections, served := b.all.Serving(); connections != 1 || served != 3 || len(b.tries()) != 1 {
			b.Errorf("%d connections serve %d inboxes", connections, served)
		}
		b.publish("third", "grant 1")
		b.publish("inbox", "grant 2")
		b.publish("another", "grant 3")
		b.wantMessages("third: grant 1", "inbox: grant 2")
	})
}

// What was published while there was none is lost. The number of the subscription shows that, and the reader is told.
func TestANewSubscriptionSaysThatMessagesMayBeMissed(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.subscribe(b.box)
		if n := b.box.Subscription(); n != 1 {
			b.Errorf("the first subscription is number %d", n)
		}
		if news := b.reader.heard(); !slices.Equal(news, []string{"subscribed"}) {
			b.Errorf("with the first subscription the reader hears %q", news)
		}
		for n := int64(2); n < 5; n++ {
			b.wire.Cut()
			synctest.Wait()
			b.publish("inbox", "lost")
			if got := b.box.Subscription(); got != 0 || b.box.IsLive() {
				b.Errorf("without a connection it is subscription %d, live: %t", got, b.box.IsLive())
			}
			b.wire.Restore()
			time.Sleep(inbox.MinRetryPause)
			synctest.Wait()
			if got := b.box.Subscription(); got != n || b.all.Count() != n {
				b.Errorf("subscription %d is number %d, of %d", n, got, b.all.Count())
			}
			if news := b.reader.heard(); !slices.Equal(news, []string{"missed", "subscribed"}) {
				b.Errorf("with subscription %d the reader hears %q", n, news)
			}
		}
		b.wantMessages()
	})
}

// Nothing was missed before the first subscription, however late it is.
func TestInboxesAreSubscribedToWhenTheServerCanBeReached(t *testing.T) {
	inBubble(t, func(b *bubble) {
		second := inbox.New("second")
		b.wire.Cut()
		b.all.Use(b.box)
		time.Sleep(time.Second)
		b.all.Use(second)
		time.Sleep(time.Minute)
		if b.box.IsLive() || second.IsLive() {
			b.Error("an inbox is live without a connection")
		}
		b.wire.Restore()
		time.Sleep(inbox.MaxRetryPause)
		b.publish("inbox", "grant 1")
		b.publish("second", "grant 2")
		b.wantMessages("inbox: grant 1", "second: grant 2")
		if news := b.reader.heard(); slices.Contains(news, "missed") || !slices.Contains(news, "subscribed") {
			b.Errorf("the reader hears %q", news)
		}
	})
}

func TestStopEndsSubscriptions(t *testing.T) {
	for name, at := range map[string]func(b *bubble){
		"while it is subscribed":         func(b *bubble) { b.subscribe(b.box) },
		"in a pause before the next try": func(b *bubble) { b.wire.Cut(); b.all.Use(b.box); time.Sleep(10*time.Second + 7*time.Millisecond) },
		"before it is used":              func(b *bubble) {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				at(b)
				start := time.Now()
				b.stop()
				if took := time.Since(start); took > 0 {
					b.Errorf("Stop returns after %v", took)
				}
				b.wire.Restore()
				b.tries()
				b.all.Use(b.box)
				b.all.Use(inbox.New("second"))
				time.Sleep(time.Minute)
				if tries := b.tries(); len(tries) > 0 {
					b.Errorf("afterwards there are connections at %v", tries)
				}
				if n, err := b.others.PubSubNumSub(b.Context(), "inbox").Result(); err != nil || n["inbox"] != 0 {
					b.Errorf("the server has %v subscriptions, %v", n, err)
				}
			})
		})
	}
}

// Locks work without messages, by polls, so that a process may run like that for long.
func TestAMissingPermissionIsLoggedOnce(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.refuse("SUBSCRIBE", "NOPERM this user has no permissions to access one of the channels")
		b.all.Use(b.box)
		time.Sleep(time.Minute)
		if text := b.logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "not allowed to subscribe") || !strings.Contains(text, "channel=inbox") {
			b.Errorf("logged: %q, want one line that names the channel", text)
		}
		b.refuse("SUBSCRIBE", "")
		time.Sleep(inbox.MaxRetryPause)
		b.publish("inbox", "grant 1")
		b.wantMessages("inbox: grant 1")
	})
}

// That a server cannot be reached is logged elsewhere.
func TestAServerThatIsUnreachableIsNotLogged(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.wire.Cut()
		b.all.Use(b.box)
		time.Sleep(time.Minute)
		if text := b.logged.String(); text != "" {
			b.Errorf("logged: %q", text)
		}
	})
}
