package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is how many slots a Cluster has.
const slots = 16384

// A Cluster is real servers that share the slots, without replicas.
type Cluster struct {
	Nodes []*Server

	t   testing.TB
	rdb []*redis.Client
	ids []string
}

// NewCluster starts a Cluster of n masters, stopped when the test ends.
func NewCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range n {
		s := Redis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no")
		rdb := s.NewClient(t)
		c.Nodes, c.rdb = append(c.Nodes, s), append(c.rdb, rdb)
		c.ids = append(c.ids, fmt.Sprint(c.do(len(c.rdb)-1, "CLUSTER", "MYID")))
	}
	for i := range c.Nodes {
		c.do(i, "CLUSTER", "ADDSLOTSRANGE", slots*i/n, slots*(i+1)/n-1)
		host, port, _ := strings.Cut(c.Nodes[i].Addr(), ":")
		c.do(0, "CLUSTER", "MEET", host, port)
	}
	for i := range c.Nodes {
		c.await(i, func(info string) bool {
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d", slots)) &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))
		})
	}
	return c
}

func (c *Cluster) await(node int, ready func(info string) bool) {
	c.t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		info := fmt.Sprint(c.do(node, "CLUSTER", "INFO"))
		if ready(info) {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			c.t.Fatalf("the Cluster is not ready: %s", info)
		}
	}
}

func (c *Cluster) do(node int, args ...any) any {
	c.t.Helper()
	v, err := c.rdb[node].Do(context.Background(), args...).Result()
	if err != nil {
		c.t.Fatalf("%v: %v", args, err)
	}
	return v
}

// Client returns a client of the Cluster, closed when the test ends.
func (c *Cluster) Client(t testing.TB, edit ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	opts := &redis.ClusterOptions{}
	for _, s := range c.Nodes {
		opts.Addrs = append(opts.Addrs, s.Addr())
	}
	for _, f := range edit {
		f(opts)
	}
	rdb := redis.NewClusterClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Owner returns the number of the node that has the slot of a key.
func (c *Cluster) Owner(key string) int {
	c.t.Helper()
	slot, _ := c.do(0, "CLUSTER", "KEYSLOT", key).(int64)
	for i := range c.Nodes {
		if slot >= int64(slots*i/len(c.Nodes)) && slot < int64(slots*(i+1)/len(c.Nodes)) {
			return i
		}
	}
	c.t.Fatalf("nobody has slot %d", slot)
	return 0
}

// BeginMove begins to move the slot of a key from its owner to another node. No key is moved: what is there stays, and
// what is not there belongs to the other node from now on.
func (c *Cluster) BeginMove(key string) {
	c.t.Helper()
	slot, from := c.do(0, "CLUSTER", "KEYSLOT", key), c.Owner(key)
	to := (from + 1) % len(c.Nodes)
	c.do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from])
	c.do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
}
