package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/scripttest"
)

// A oneNodeCluster is a Cluster of one server, which has no sharded channels.
type oneNodeCluster struct {
	*redis.Client
	unknown  atomic.Int32 // how many questions for the node of a slot are not answered
	reloads  atomic.Int32
	promoted atomic.Pointer[redis.Client] // has its place; nil: none
}

func (c *oneNodeCluster) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	c.reloads.Add(1)
	return f(ctx, c.Client)
}

func (c *oneNodeCluster) MasterForKey(context.Context, string) (*redis.Client, error) {
	if c.unknown.Add(-1) >= 0 {
		return nil, errors.New("the Cluster is not in sight")
	}
	return cmp.Or(c.promoted.Load(), c.Client), nil
}

// A shardedBubble is a bubble with an engine that has an inbox for each slot.
type shardedBubble struct {
	*bubble
	c *oneNodeCluster
}

func inShardedBubble(t *testing.T, test func(b *shardedBubble)) {
	inBubble(t, func(b *bubble) {
		c := &oneNodeCluster{Client: b.s.NewClient(b.T, b.wire.Use)}
		cfg := DefaultConfig()
		cfg.Logger = slog.New(slog.DiscardHandler)
		e, err := New(c, cfg)
		if err != nil {
			b.Fatal(err)
		}
		e.probe.Disable()
		b.Cleanup(func() { _ = e.Close() })
		_ = b.e.Close()
		b.e = e
		b.driver = scripttest.NewOnNode(b.T, b.rdb, bubbleKey)
		test(&shardedBubble{b, c})
	})
}

// handOver has the driver hold the lock of a key, and hand it to a call that waits. It returns how long that took.
func (b *shardedBubble) handOver(key string) time.Duration {
	b.Helper()
	driver := scripttest.NewOnNode(b.T, b.rdb, key)
	driver.Fair("held")
	a := b.requester(core.Fair)
	a.Key = key
	c := b.call(b.e, a)
	time.Sleep(2 * inbox.MinRetryPause)
	b.wantWaiting("the call", c)
	driver.Release("held")
	start := time.Now()
	<-c.done
	took := time.Since(start)
	b.release(b.wantGranted("the call", c))
	return took
}

func (b *shardedBubble) inboxOf(key string) *inbox.Inbox {
	keys := b.e.layout.KeySet(key)
	return b.e.slotOf(&keys).inbox
}

func (b *shardedBubble) wantConnections(what string, n, served int) {
	b.Helper()
	if gotN, gotServed := b.e.inboxes.Serving(); gotN != n || gotServed != served {
		b.Errorf("%s: %d connections for %d inboxes, want %d for %d", what, gotN, gotServed, n, served)
	}
}

func (b *shardedBubble) wantByMessage(what, key string) {
	b.Helper()
	if took := b.handOver(key); took >= inbox.MinRetryPause {
		b.Errorf("%s: the hand-over took %v", what, took)
	}
}

func TestInboxesOfANodeShareAConnection(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		for _, key := range []string{"item:1", "item:2", "item:3", "item:1"} {
			b.wantByMessage("at a node without sharded channels", key)
		}
		b.wantConnections("three slots", 1, 3)
	})
}

func TestAnInboxIsSubscribedToWhenItsNodeIsInSight(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.c.unknown.Store(1)
		b.wantByMessage("after a while", "item:1")
		if b.c.reloads.Load() == 0 {
			b.Error("no question for the nodes was sent")
		}
	})
}

func TestAllInboxesOfAConnectionThatFailsAreSubscribedToAnew(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.handOver("item:1")
		b.handOver("item:2")
		before := b.e.inboxes.Count()
		b.e.inboxes.Resubscribe(b.inboxOf("item:1"))
		time.Sleep(2 * inbox.MinRetryPause)
		b.wantConnections("after a failure", 1, 2)
		if n := b.e.inboxes.Count(); n != before+2 {
			b.Errorf("%d subscriptions, before %d", n, before)
		}
		b.wantByMessage("after a failure", "item:1")
		b.wantByMessage("after a failure", "item:2")
	})
}

func TestAGrantFromBeforeASubscriptionIsFoundImmediately(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.c.unknown.Store(2)
		b.driver.Fair("held")
		c := b.call(b.e, b.requester(core.Fair))
		b.driver.Release("held")
		b.wantWaiting("a call whose message is not received", c)
		time.Sleep(3 * inbox.MinRetryPause)
		b.release(b.wantGranted("the call, with the subscription", c))
	})
}

// A node that hands a slot over ends the subscriptions there.
func TestASubscriptionThatTheNodeEndsIsMadeAnew(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.handOver("item:1")
		b.handOver("item:2")
		first, second := b.inboxOf("item:1"), b.inboxOf("item:2")
		stays := second.Subscription()
		b.e.inboxes.Receive(first, &redis.Subscription{Kind: "sunsubscribe", Channel: first.Name})
		if first.IsLive() {
			b.Error("it is taken for subscribed")
		}
		time.Sleep(2 * inbox.MinRetryPause)
		b.wantByMessage("after the end", "item:1")
		if second.Subscription() != stays {
			b.Error("another inbox also subscribed anew")
		}
		if b.c.reloads.Load() == 0 {
			b.Error("no question for the slot was sent")
		}
	})
}

// The answer to a subscription may be that the slot is elsewhere.
func TestASubscriptionThatIsRefusedByTheWrongNodeIsMadeAnew(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.handOver("item:1")
		first := b.inboxOf("item:1")
		if !b.e.inboxes.Receive(first, replyError("MOVED 1 127.0.0.1:1")) {
			b.Error("the connection is taken for useless")
		}
		time.Sleep(2 * inbox.MinRetryPause)
		b.wantConnections("after the answer", 1, 1)
		b.wantByMessage("after the answer", "item:1")
		if b.e.inboxes.Receive(first, replyError("NOPERM no")) {
			b.Error("a connection that may not subscribe is kept")
		}
	})
}

func TestAnUnusedInboxIsGivenUp(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.handOver("item:1")
		b.handOver("item:2")
		for range 4 {
			time.Sleep(inbox.IdleTimeout / 2)
			b.wantByMessage("one that is used", "item:1")
		}
		b.wantConnections("while one is used", 1, 1)
		b.wantByMessage("one that is used again", "item:2")
		b.wantConnections("when both are used", 1, 2)
		time.Sleep(2 * inbox.IdleTimeout)
		b.wantConnections("when none is used", 0, 0)
		b.wantByMessage("one that is used again", "item:1")
	})
}

// A long wait uses it.
func TestAnInboxOfALongWaitIsKept(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.driver.Acquire(scripttest.Acquire{ID: "held", Mode: core.Fair, Lease: 3 * inbox.IdleTimeout})
		c := b.call(b.e, b.requester(core.Fair))
		first := b.inboxOf(bubbleKey).Subscription()
		time.Sleep(2 * inbox.IdleTimeout)
		if n := b.inboxOf(bubbleKey).Subscription(); n != first {
			b.Errorf("subscription %d has become %d", first, n)
		}
		b.driver.Release("held")
		start := time.Now()
		<-c.done
		if took := time.Since(start); took >= script.PollInterval/2 {
			b.Errorf("the hand-over took %v", took)
		}
		b.release(b.wantGranted("the call", c))
	})
}

// A master that hangs does not say that another one has its place.
func TestInboxesFollowImmediatelyWhenANodeIsDeposed(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.handOver("item:1")
		b.c.promoted.Store(b.s.NewClient(b.T, b.wire.Use))
		b.e.recovery.deposed()
		time.Sleep(2 * inbox.MinRetryPause)
		if b.e.inboxes.Node(b.inboxOf("item:1")) != b.c.promoted.Load() {
			b.Error("the inbox is where it was")
		}
		b.wantByMessage("from the new master", "item:1")
	})
}

// A connection with inboxes may be the first, and the only one, to notice that its node is unreachable.
func TestAFailedInboxConnectionMakesTheClusterBeAskedForMasters(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.handOver("item:1")
		before := b.c.reloads.Load()
		b.wire.Cut()
		time.Sleep(inbox.MinRetryPause / 2)
		if b.c.reloads.Load() == before {
			b.Error("no question for the masters was sent")
		}
		b.wire.Restore()
		b.wantByMessage("afterwards", "item:1")
	})
}

// go-redis waits for the answer to a poll for as long as its read timeout.
func TestAPollThatIsNotAnsweredHasTheClusterAsked(t *testing.T) {
	inShardedBubble(t, func(b *shardedBubble) {
		b.driver.Fair("held")
		c := b.call(b.e, b.requester(core.Fair))
		time.Sleep(script.PollInterval / 2) // the first poll is in flight in the middle of the next two intervals
		before := b.c.reloads.Load()
		b.wire.Silence()
		time.Sleep(2 * script.PollInterval)
		if b.c.reloads.Load() == before {
			b.Error("no question for the masters was sent")
		}
		b.wire.Restore()
		b.driver.Release("held")
		<-c.done
		b.release(b.wantGranted("the call", c))
	})
}
