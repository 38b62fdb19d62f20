package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/transport"
)

// A Cluster grows: the first slots move to a node that CLUSTER SLOTS does not name yet. It takes longer than a lease.
func TestARenewalFollowsItsKeyToANodeWithoutSlots(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 1, 1)
	added := c.Grow()
	cfg := DefaultConfig()
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Replicas = transport.Replicas{Count: 1, Timeout: 2 * time.Second}
	e, err := New(c.Client(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	a := newRequester("item:1")
	a.Lease = 3 * time.Second
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
	select {
	case err := <-a.lost:
		t.Fatalf("lost: %v", err)
	case <-time.After(2 * a.Lease):
	}
	c.FinishMove(keys.Holder())
	if err := g.Extend(t.Context(), a.Lease); err != nil {
		t.Errorf("after the slot has moved: %v", err)
	}
	if _, err := g.Release(soon); err != nil {
		t.Error(err)
	}
}
