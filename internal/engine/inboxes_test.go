package engine

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

// A rally is two processes that hand the lock of a key over to one another.
type rally struct {
	*testing.T
	c          *redistest.Cluster // nil: there is none
	key        string
	one, other *Engine
}

func newRally(t *testing.T, c *redistest.Cluster) *rally {
	t.Helper()
	return &rally{T: t, c: c, key: c.KeyAt(0), one: newEngine(t, c.Client(t)), other: newEngine(t, c.Client(t))}
}

// handOver has other wait while one has the lock. It returns how long the lock took from one to the other.
func (r *rally) handOver() time.Duration {
	r.Helper()
	took, err := r.tryHandOver()
	if err != nil {
		r.Fatal(err)
	}
	return took
}

// tryHandOver is handOver of a lock that may be lost.
func (r *rally) tryHandOver() (took time.Duration, err error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 4*time.Minute)
	defer cancel()
	acquire := func(e *Engine, a *requester) (*hold, error) {
		a.Mode = core.Fair
		g, err := e.Acquire(ctx, &a.Request)
		h, _ := g.(*hold)
		return h, err
	}
	h, err := acquire(r.one, newRequester(r.key))
	if err != nil {
		r.Fatal(err)
	}
	waiter, done := newRequester(r.key), make(chan error, 1)
	go func() {
		next, err := acquire(r.other, waiter)
		if err == nil {
			_, err = next.Release(soon)
		}
		done <- err
	}()
	select {
	case <-waiter.contended:
	case err := <-done: // the server has lost the hold
		done <- err
	}
	start := time.Now()
	_, err = h.Release(soon)
	err = cmp.Or(<-done, err)
	return time.Since(start), err
}

// inbox is the one of other for the key.
func (r *rally) inbox() *inbox.Inbox {
	keys := r.other.layout.KeySet(r.key)
	return r.other.slotOf(&keys).inbox
}

// holder is the first Redis key of the lock.
func (r *rally) holder() string {
	keys := r.other.layout.KeySet(r.key)
	return keys.Holder()
}

// handOverAt hands over again and again until other listens at the node. Each time the inbox is used, and looked after.
func (r *rally) handOverAt(node int, sharded bool) {
	r.Helper()
	rdb, name := r.c.Nodes[node].NewClient(r.T), r.inbox().Name
	count := rdb.PubSubNumSub
	if sharded {
		count = rdb.PubSubShardNumSub
	}
	for begun := time.Now(); ; r.handOver() {
		n, err := count(r.Context(), name).Result()
		if err != nil {
			r.Fatal(err)
		}
		if n[name] > 0 {
			return
		}
		if time.Since(begun) > 60*inbox.PingAfter {
			r.Fatalf("no connection listens at node %d, which has the slot", node)
		}
	}
}

// published returns how many messages a node has sent to all others because something was published.
func (r *rally) published(node int) string {
	info, err := r.c.Nodes[node].NewClient(r.T).ClusterInfo(r.Context()).Result()
	if err != nil {
		r.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(line, "cluster_stats_messages_publish_sent:"); ok {
			return strings.TrimSpace(n)
		}
	}
	return "0"
}

// A message stays at the node that has the lock, and is received there wherever the slot goes.
func TestTheInboxOfASlotGoesWhereTheSlotGoes(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 3, 1)
	r := newRally(t, c)
	r.handOverAt(0, true)
	r.handOverAt(c.Move(r.holder()), true)
	promoted := c.Depose(r.holder())
	r.handOverAt(promoted, true)
	for i := range c.Nodes {
		if n := r.published(i); n != "0" {
			t.Errorf("node %d has sent %s messages to all others", i, n)
		}
	}
	c.Nodes[promoted].Kill()
	r.handOverAt(c.AwaitPromoted(r.holder(), promoted), true)
}

// Before Redis 7 there are no sharded channels.
func TestAnOlderClusterHasPlainInboxes(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	r := newRally(t, redistest.NewCluster(t, 2, 0, "--rename-command", "SSUBSCRIBE", "", "--rename-command", "SPUBLISH", ""))
	r.handOverAt(0, false)
	subscriptions := r.other.inboxes.Count()
	quickest, slowest := time.Minute, time.Duration(0)
	for range 5 {
		took := r.handOver()
		quickest, slowest = min(quickest, took), max(slowest, took)
	}
	if quickest >= script.PollInterval/2 {
		t.Errorf("no message comes: a hand-over takes %v", quickest)
	}
	if n := r.other.inboxes.Count(); n != subscriptions && slowest < inbox.LateMessage { // or a message may have been late
		t.Errorf("it has subscribed %d times, before %d", n, subscriptions)
	}
}
