package lockmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A slot moves to a master whose replicas lag, and that dies. Its replica has never heard of the hold.
func TestNobodyGetsInBesideAHolderWhoseSlotHasMoved(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	for _, opts := range [][]lockmw.Option{nil, {lockmw.WithFixedLease(10 * time.Minute)}} {
		c := redistest.NewCluster(t, 3, 1)
		key := c.KeyAt(0)
		holds := usertest.Abandoned(t, c.Client(t), lockmw.WithReplicas(1, 200*time.Millisecond), lockmw.WithLease(10*time.Minute))
		ctx, hold := usertest.Lock(t, t.Context(), holds, key, opts...)
		deadline := hold.Deadline()
		c.Starve(1)
		c.Move(key)
		c.Nodes[1].Kill()
		c.AwaitPromoted(key, 1)
		_, next := usertest.Lock(t, t.Context(), usertest.Abandoned(t, c.Client(t)), key, lockmw.WithWait(takeOver))
		if err := ctx.Err(); err == nil {
			t.Error("two hold the key")
		}
		t.Logf("the hold: %v; the next one begins %v before its first deadline", context.Cause(ctx), time.Until(deadline))
		usertest.Unlock(t, next)
		_ = hold.Unlock()
	}
}

func TestAHoldGoesWithItsSlotToAMasterWhoseReplicasKeepUp(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 1)
	key := c.KeyAt(0)
	holds := usertest.Abandoned(t, c.Client(t), lockmw.WithReplicas(1, 200*time.Millisecond), lockmw.WithLease(10*time.Minute))
	ctx, hold := usertest.Lock(t, t.Context(), holds, key)
	deadline := hold.Deadline()
	c.Move(key)
	usertest.Eventually(t, "the hold is acknowledged again", takeOver, func() bool { return hold.Deadline().After(deadline) })
	if err := ctx.Err(); err != nil {
		t.Error(context.Cause(ctx))
	}
	usertest.Unlock(t, hold)
}

// Nothing tells a process of a key that has moved before its slot: the gap that docs/topologies.md states.
func TestAHoldWhoseKeyMovesBeforeItsSlotIsNotDoubted(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 2, 1)
	key := c.KeyAt(0)
	holds := usertest.Abandoned(t, c.Client(t), lockmw.WithReplicas(1, 200*time.Millisecond), lockmw.WithLease(10*time.Minute))
	ctx, hold := usertest.Lock(t, t.Context(), holds, key)
	c.Starve(1)
	c.BeginMove(key)
	c.MoveKeys("lockmw:{" + key + "}")
	select {
	case <-ctx.Done():
		t.Errorf("the gap is closed, and the table can say so: %v", context.Cause(ctx))
	case <-time.After(2 * time.Second): // a hold that is in doubt ends within one
	}
	c.FinishMove(key)
	<-ctx.Done()
	_ = hold.Unlock()
}
