package transport_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

// One key of a pipeline has moved to a node with a replica that keeps up. That shows nothing about the other keys.
func TestARedirectedRunAcknowledgesNoOther(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 1)
	scripts, layout := script.NewSet(script.DefaultParams(true)), script.NewLayout("lockmw", transport.Topology{Cluster: true})
	rdb := c.Client(t, func(o *redis.ClusterOptions) { o.ReadTimeout = 30 * time.Second })
	newSender := func(patience time.Duration) *transport.Sender {
		s := transport.NewSender(rdb, transport.Topology{Cluster: true}, time.Second, transport.Replicas{Count: 1, Timeout: patience})
		t.Cleanup(s.Stop)
		return s
	}
	patient := newSender(10 * time.Second) // the replicas have only begun to follow
	moves, stays := layout.KeySet(c.KeyAt(0)), layout.KeySet(c.KeyAt(0))
	stem := script.IDStem("a")
	id := stem.New(1)
	send := func(prepare func(context.Context, *script.Set, func(*transport.Reply)) *transport.Call) {
		t.Helper()
		answer := make(chan *transport.Reply, 1)
		patient.Start(prepare(t.Context(), scripts, func(r *transport.Reply) { answer <- r }))
		if r := <-answer; r.Err != nil || r.ReplicaErr != nil {
			t.Fatal(r.Err, r.ReplicaErr)
		}
	}
	for _, keys := range []*script.KeySet{&moves, &stays} {
		send((&script.Acquire{Keys: keys, ID: id, Lease: time.Hour, Inbox: ""}).Call)
		send((&script.Renew{Keys: keys, ID: id, Lease: time.Hour}).Call) // the node knows the script from here on
	}
	c.Move(moves.Holder())
	for _, replica := range c.Replicas(0) {
		c.Nodes[replica].Pause(t)
	}
	var few [2]error
	var batch []*transport.Call
	for i, keys := range []*script.KeySet{&moves, &stays} {
		n := script.Renew{Keys: keys, ID: id, Lease: time.Hour}
		batch = append(batch, n.Call(t.Context(), scripts, func(r *transport.Reply) {
			if r.Err != nil {
				t.Error(r.Err)
			}
			few[i] = r.ReplicaErr
		}))
	}
	newSender(time.Second).RunBatch(t.Context(), batch)
	if few[0] != nil {
		t.Errorf("what has moved: %v", few[0])
	}
	if few[1] == nil {
		t.Error("what has stayed counts as acknowledged, by a replica that hangs")
	}
}
