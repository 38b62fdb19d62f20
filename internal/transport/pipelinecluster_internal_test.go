package transport

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
)

// answering counts at its key how often it has run, and answers the first time with the error that is there.
const answering = `local key, n = KEYS[1], redis.call('INCR', KEYS[1] .. ':runs')
local err = redis.call('GET', key)
if err and n == 1 then return redis.error_reply(err) end
return n`

// go-redis follows redirects, and repeats a whole pipeline for the sake of its first command.
func TestNoCommandOfAPipelineIsAtTwoNodesOfAClusterAtOnce(t *testing.T) {
	from, to := redistest.Mini(t), redistest.Mini(t)
	ctx := t.Context()
	nodes := [2]*redis.Client{from.NewClient(t), to.NewClient(t)}
	nodes[0].MSet(ctx, "{a}busy", "TRYAGAIN later", "{a}moved", "MOVED 15495 "+to.Addr())
	cluster := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: from.Addr()}}}}, nil
		},
	})
	t.Cleanup(func() { _ = cluster.Close() })
	s := NewSender(cluster, Topology{Cluster: true}, time.Second, Replicas{})
	defer s.Stop()
	run := func(key string, answer **Reply) *Call {
		k := NewCall(ctx, NewScript(answering), 1, func(r *Reply) { *answer = r })
		k.AddKeys(key)
		k.sendWhole()
		return k
	}
	var busy, moved *Reply
	s.RunBatch(ctx, []*Call{run("{a}busy", &busy), run("{a}moved", &moved)})
	if err := busy.Err; err == nil || !IsTemporary(err) {
		t.Errorf("the first one has the error %v, want that of the node", err)
	}
	if moved.Err != nil {
		t.Errorf("the one that was redirected has the error %v", moved.Err)
	}
	for i, want := range []string{"1", "1"} {
		if n := nodes[i].Get(ctx, "{a}moved:runs").Val(); n != want {
			t.Errorf("node %d has run it %q times, want once", i+1, n)
		}
	}
}
