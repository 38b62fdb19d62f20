package transport

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// go-redis writes the address of a node in one way, servers do so in another one if it is of IPv6.
func TestARedirectNamesANode(t *testing.T) {
	known := []string{"[fd00::1]:7000", "10.0.0.1:7000", "node-1.example:7000"}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		ReadTimeout: -1,
		ClusterSlots: func(context.Context) (all []redis.ClusterSlot, _ error) {
			for i, addr := range known {
				all = append(all, redis.ClusterSlot{Start: i, End: i, Nodes: []redis.ClusterNode{{Addr: addr}}})
			}
			return all, nil
		},
	})
	t.Cleanup(func() { _ = cluster.Close() })
	s := NewSender(cluster, Topology{Cluster: true}, time.Second, Replicas{Count: 1, Timeout: time.Minute})
	masters := make(map[*redis.Client]bool)
	var from *redis.Client
	for _, text := range []string{"10.0.0.1:7000", "fd00::1:7000", "[fd00::1]:7000", "node-1.example:7000"} {
		node, first := s.redirected(t.Context(), from, reply("ASK 1 "+text))
		if node == nil || len(first) != 1 || len(s.emptyNodes) > 0 {
			t.Fatalf("%s is not found: %v, %v", text, node, first)
		}
		from, masters[node] = node, true
	}
	if len(masters) != len(known) {
		t.Errorf("%d nodes are found, want %d", len(masters), len(known))
	}

	var added *redis.Client
	for range 2 {
		node, _ := s.redirected(t.Context(), from, reply("ASK 1 fd00::2:7000"))
		if node == nil || added != nil && node != added {
			t.Fatalf("a node without slots has the client %v, want %v", node, added)
		}
		added = node
	}
	if o := added.Options(); o.Addr != "[fd00::2]:7000" || readTimeout(added) != 0 {
		t.Errorf("a node without slots has the client %v, with a limit of %v", added, readTimeout(added))
	}
	s.Stop()
	if err := added.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("after Stop the client of a node answers %v, want that it is closed", err)
	}
	if node, _ := s.redirected(t.Context(), from, reply("ASK 1 fd00::3:7000")); node != nil {
		t.Errorf("after Stop there is a new client: %v", node)
	}
}
