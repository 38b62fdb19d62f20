package engine

import (
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

// A Cluster grows: the first slots move to a node that CLUSTER SLOTS does not name yet. It may take longer than a lease.
func TestARenewalFollowsItsKeyToANodeWithoutSlots(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 1, 1)
	added := c.Grow()
	e := newReplicated(t, c.Client(t), transport.Replicas{Count: 1, Timeout: 2 * time.Second})
	a := newRequester("item:1")
	a.Lease = 10 * time.Second
	g, err := e.Acquire(t.Context(), &a.Request)
	if err != nil {
		t.Fatal(err)
	}
	keys := e.layout.KeySet(a.Key)
	if to := c.BeginMove(keys.Holder()); to != added {
		t.Fatalf("the slot moves to node %d, want the new node %d", to, added)
	}
	c.MoveKeys(keys.Holder(), keys.Fence())
	for range 10 { // several times in a row: also on a connection that exists
		if err := g.Extend(t.Context(), a.Lease); err != nil {
			t.Fatalf("before the slot has moved: %v", err)
		}
	}
	end := g.Deadline().Add(a.Lease / 2) // more than one renewal moves it
	eventually(t, "it is not renewed", func() bool { return end.Before(g.Deadline()) })
	c.FinishMove(keys.Holder())
	if err := g.Extend(t.Context(), a.Lease); err != nil {
		t.Errorf("after the slot has moved: %v", err)
	}
	if _, err := g.Release(soon); err != nil {
		t.Error(err)
	}
}
