package inbox_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/test/redistest"
)

// A twoNodeCluster is a Cluster of two servers. A test says which of them has the slot of an inbox.
type twoNodeCluster struct {
	*redis.Client // of the first
	second        *redis.Client
	wire          *redistest.Wire // to the second
	atSecond      chan []string   // names of inboxes; has one element
}

func (c *twoNodeCluster) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	return f(ctx, c.Client)
}

func (c *twoNodeCluster) MasterForKey(_ context.Context, name string) (*redis.Client, error) {
	names := <-c.atSecond
	c.atSecond <- names
	if slices.Contains(names, name) {
		return c.second, nil
	}
	return c.Client, nil
}

// move has the slots of these inboxes be at the second node, and of no others.
func (c *twoNodeCluster) move(names ...string) {
	<-c.atSecond
	c.atSecond <- names
}

// inCluster runs test with a Cluster, and with a client that publishes at its second node.
func inCluster(t *testing.T, test func(b *bubble, c *twoNodeCluster, second *redis.Client)) {
	t.Helper()
	var c *twoNodeCluster
	var second *redis.Client
	inBubbleOf(t, func(b *bubble, rdb *redis.Client) redis.UniversalClient {
		s := redistest.Piped(b)
		second = s.NewClient(b)
		c = &twoNodeCluster{Client: rdb, wire: s.NewWire(), atSecond: make(chan []string, 1)}
		c.second = s.NewClient(b, b.use, c.wire.Use)
		c.atSecond <- nil
		return c
	}, func(b *bubble) { test(b, c, second) })
}

// A message is published at the node that has the slot of the lock.
func TestAnInboxOfAClusterIsSubscribedToAtTheNodeOfItsSlot(t *testing.T) {
	inCluster(t, func(b *bubble, c *twoNodeCluster, second *redis.Client) {
		there := []*inbox.Inbox{inbox.New("second"), inbox.New("third")}
		c.move("second", "third")
		b.subscribe(append(there, b.box)...)
		if connections, served := b.all.Serving(); connections != 2 || served != 3 {
			b.Errorf("%d connections serve %d inboxes", connections, served)
		}
		b.publish("inbox", "grant 1")
		b.publish("second", "at the wrong node")
		b.publishBy(second, "inbox", "at the wrong node")
		b.publishBy(second, "third", "grant 2")
		b.wantMessages("inbox: grant 1", "third: grant 2")
	})
}

// The others stay where they are. Messages may be missed meanwhile.
func TestInboxesFollowTheirSlots(t *testing.T) {
	inCluster(t, func(b *bubble, c *twoNodeCluster, second *redis.Client) {
		stays := inbox.New("stays")
		b.subscribe(b.box, stays)
		number := stays.Subscription()
		b.reader.heard()
		c.move("inbox")
		b.all.FollowSlots()
		synctest.Wait()
		b.reader.mu.Lock()
		if b.reader.movedFrom != c.Client || !slices.Equal(b.reader.movedNames, []string{"inbox"}) {
			b.Errorf("the reader hears that %q have moved", b.reader.movedNames)
		}
		b.reader.mu.Unlock()
		time.Sleep(inbox.MinRetryPause)
		synctest.Wait()
		if b.all.Node(b.box) != c.second || b.all.Node(stays) != c.Client || stays.Subscription() != number {
			b.Errorf("the other inbox has subscription %d, before %d", stays.Subscription(), number)
		}
		b.publishBy(second, "inbox", "grant 1")
		b.publish("stays", "grant 2")
		b.wantMessages("inbox: grant 1", "stays: grant 2")
		if news := b.reader.heard(); !slices.Equal(news, []string{"missed", "subscribed"}) {
			b.Errorf("the reader hears %q", news)
		}
	})
}

// A call that waits for messages to one inbox gains nothing by a connection to another node.
func TestHurryUpEndsNoPauseForAnInboxThatIsLive(t *testing.T) {
	inCluster(t, func(b *bubble, c *twoNodeCluster, _ *redis.Client) {
		away := inbox.New("away")
		c.move("away")
		b.subscribe(b.box, away)
		b.reader.idle.Store(true) // so that the pauses do not end by themselves
		c.wire.Cut()
		time.Sleep(10 * time.Second)
		c.wire.Restore()
		b.all.ReconnectNow(b.box)
		time.Sleep(inbox.MaxRetryPause)
		synctest.Wait()
		if away.IsLive() {
			b.Error("the pause is over")
		}
		b.all.ReconnectNow(away)
		synctest.Wait()
		if !away.IsLive() {
			b.Error("the pause is not over")
		}
	})
}

// There may be thousands of slots with locks. Leases that end soon if a slot moves have to hear of that.
func TestAnInboxOfAClusterIsGivenUpWhenNobodyNeedsIt(t *testing.T) {
	inCluster(t, func(b *bubble, c *twoNodeCluster, second *redis.Client) {
		used, heeded := inbox.New("used"), inbox.New("heeded")
		heeded.Listeners.Add(1)
		b.subscribe(b.box, used, heeded)
		for range 4 {
			time.Sleep(inbox.IdleTimeout / 2)
			b.all.Use(used)
		}
		if b.box.IsLive() || !used.IsLive() || !heeded.IsLive() {
			b.Errorf("live: the unused one %t, the used one %t, the one with listeners %t", b.box.IsLive(), used.IsLive(), heeded.IsLive())
		}
		b.publish("inbox", "grant 1")
		b.wantMessages()
		b.reader.heard()
		b.subscribe(b.box)
		b.publish("inbox", "grant 2")
		b.wantMessages("inbox: grant 2")
		if news := b.reader.heard(); !slices.Equal(news, []string{"subscribed"}) {
			b.Errorf("with the next use of one that was given up the reader hears %q", news)
		}
		heeded.Listeners.Add(-1)
		time.Sleep(2 * inbox.IdleTimeout)
		if connections, served := b.all.Serving(); connections != 0 || served != 0 {
			b.Errorf("%d connections serve %d inboxes that nobody needs", connections, served)
		}
	})
}

// A proxy in front of several servers has one address, but each slot has an inbox.
func TestAnInboxOfASlotBehindAProxyIsGivenUpWhenNobodyNeedsIt(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.all.PerSlot = true
		used := inbox.New("used")
		b.subscribe(b.box, used)
		for range 4 {
			time.Sleep(inbox.IdleTimeout / 2)
			b.all.Use(used)
		}
		if b.box.IsLive() || !used.IsLive() {
			b.Errorf("live: the unused one %t, the used one %t", b.box.IsLive(), used.IsLive())
		}
	})
}
