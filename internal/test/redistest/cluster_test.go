package redistest_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func write(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	if err := rdb.Set(t.Context(), key, "v", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
}

// holds checks that a client finds a written key.
func holds(t *testing.T, rdb redis.UniversalClient, key string) {
	t.Helper()
	if got, err := rdb.Get(t.Context(), key).Result(); got != "v" {
		t.Errorf("the key has %q, %v", got, err)
	}
}

func TestSlotsOfAClusterMoveWithTheirKeys(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 0)
	rdb := c.Client(t)
	for node := range c.Nodes {
		key := c.KeyAt(node)
		if owner := c.Owner(key); owner != node {
			t.Fatalf("a key of node %d is at node %d", node, owner)
		}
		other := "{" + key + "}:other" // in the same slot
		write(t, rdb, key)
		write(t, rdb, other)
		to := c.BeginMove(key)
		there := c.Nodes[to].NewClient(t)
		if n := there.DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("the new owner has %d keys when the move begins", n)
		}
		c.MoveKeys(key)
		if n := there.DBSize(t.Context()).Val(); n != 1 || c.Owner(key) != node {
			t.Errorf("the new owner has %d keys when one has moved, and the slot is at node %d", n, c.Owner(key))
		}
		c.FinishMove(key)
		if n := there.DBSize(t.Context()).Val(); n != 2 || c.Owner(key) != to {
			t.Errorf("the new owner has %d keys, and the slot is at node %d", n, c.Owner(key))
		}
		holds(t, rdb, key)
		holds(t, rdb, other)
	}
}

func TestReplicasOfAClusterTakeOver(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 3, 1)
	key := c.KeyAt(1)
	write(t, c.Client(t), key)

	deposed := c.Depose(key)
	if deposed != 4 || c.Owner(key) != 4 || len(c.Replicas(4)) != 1 {
		t.Errorf("node %d took over from node 1; node 4 has the replicas %v", deposed, c.Replicas(4))
	}
	holds(t, c.Client(t), key)

	c.Nodes[4].Kill()
	if promoted := c.AwaitPromoted(key, 4); promoted != 1 {
		t.Errorf("node %d was promoted", promoted)
	}
	holds(t, c.Client(t), key)

	c.Nodes[4].Restart(t)
	c.AwaitSettled()
	if replicas := c.Replicas(1); len(replicas) != 1 || replicas[0] != 4 {
		t.Errorf("the replicas of node 1 are %v", replicas)
	}

	c.Nodes[1].Pause(t)
	if promoted := c.AwaitPromoted(key, 1); promoted != 4 {
		t.Errorf("node %d was promoted", promoted)
	}
	c.Nodes[1].Resume(t)
	c.AwaitSettled()
	if owner := c.Owner(key); owner != 4 {
		t.Errorf("the owner is node %d", owner)
	}
}
