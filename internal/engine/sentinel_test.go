package engine

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

// A master that was away, and deposed meanwhile, goes on as if it were the master until a Sentinel tells it: it answers,
// and keeps its subscriptions, but nothing is published to it.
func TestTheInboxFollowsTheMasterThatSentinelsElect(t *testing.T) {
	suite.NeedsFull(t, "Sentinels take seconds to agree")
	t.Parallel()
	s := redistest.NewSentinel(t, 1, 3)
	one, other := newEngine(t, s.Client(t)), newEngine(t, s.Client(t))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	acquire := func(e *Engine, a *requester) (*hold, error) {
		a.Mode = core.Fair
		g, err := e.Acquire(ctx, &a.Request)
		h, _ := g.(*hold)
		return h, err
	}
	// handOver has the other engine wait while one has the lock.
	handOver := func() {
		h, err := acquire(one, newRequester("item"))
		if err != nil {
			t.Fatal(err)
		}
		waiter, done := newRequester("item"), make(chan error, 1)
		go func() {
			next, err := acquire(other, waiter)
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
		if _, err := h.Release(soon); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	handOver()
	old := s.Nodes[s.Master()]
	if err := old.NewClient(t).Do(ctx, "ACL", "SETUSER", "default", "-replicaof", "-slaveof").Err(); err != nil {
		t.Fatal(err) // the Sentinels must not be able to tell it
	}
	old.Pause(t)
	master := s.Nodes[s.AwaitPromoted(s.Master())].NewClient(t)
	old.Resume(t)
	for begun := time.Now(); !hears(t, master, other); {
		if time.Since(begun) > 3*time.Minute {
			t.Fatal("the inbox is not at the new master")
		}
		handOver()
	}
}

// hears reports whether the inbox of e is subscribed to at a server.
func hears(t *testing.T, rdb *redis.Client, e *Engine) bool {
	t.Helper()
	n, err := rdb.PubSubNumSub(t.Context(), e.inbox.Name).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n[e.inbox.Name] > 0
}
