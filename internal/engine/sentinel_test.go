package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

// A master that was unreachable, and was deposed in the meantime, continues as if it were the master until a Sentinel demotes it:
// it answers and keeps its subscriptions, but nothing is published to it.
func TestTheInboxFollowsTheMasterThatSentinelsElect(t *testing.T) {
	suite.NeedsFull(t, "Sentinels take seconds to agree")
	t.Parallel()
	s := redistest.NewSentinel(t, 1, 3)
	r := &rally{T: t, key: "item", one: newEngine(t, s.Client(t)), other: newEngine(t, s.Client(t))}
	r.handOver()
	old := s.Nodes[s.Master()]
	if err := old.NewClient(t).Do(t.Context(), "ACL", "SETUSER", "default", "-replicaof", "-slaveof").Err(); err != nil {
		t.Fatal(err) // the Sentinels must not be able to tell it
	}
	old.Pause(t)
	master := s.Nodes[s.AwaitPromoted(s.Master())].NewClient(t)
	old.Resume(t)
	for begun := time.Now(); !hears(t, master, r.other); {
		if time.Since(begun) > 3*time.Minute {
			t.Fatal("the inbox is not at the new master")
		}
		if _, err := r.tryHandOver(); err != nil && !errors.Is(err, core.ErrLost) { // the new master may not know the lock
			t.Fatal(err)
		}
	}
}

// hears reports whether the inbox of e is subscribed at a server.
func hears(t *testing.T, rdb *redis.Client, e *Engine) bool {
	t.Helper()
	n, err := rdb.PubSubNumSub(t.Context(), e.inbox.Name).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n[e.inbox.Name] > 0
}
