package idempotency_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
)

// acknowledged makes a record count only once a replica has it.
var acknowledged = lockmw.WithReplicas(1, 200*time.Millisecond)

// during returns work during which something happens, and then an order.
func (s *shop) during(happens func()) func(context.Context, order) (receipt, error) {
	return func(ctx context.Context, o order) (receipt, error) {
		happens()
		return s.order(ctx, o)
	}
}

func TestARecordSurvivesAFailOverBehindSentinel(t *testing.T) {
	suite.NeedsFull(t, "Sentinels take seconds to promote a replica")
	t.Parallel()
	servers := redistest.NewSentinel(t, 1, 1)
	site, shop := newSite(servers), &shop{}
	once := idempotency.New(site.client(t, acknowledged))
	got, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, shop.during(func() { servers.Failover() }))
	if err != nil || got.Number != 1 {
		t.Errorf("a run during a fail-over got %v, %v", got, err)
	}
	servers.AwaitSettled()
	servers.Failover()
	got, err = shop.do(idempotency.New(site.client(t)), "tea", idempotency.Refuse)
	if err != nil || got.Number != 1 {
		t.Errorf("a repetition got %v, %v", got, err)
	}
}

// A Cluster with replicas serves several tests, one after the other, because it takes seconds to start.
func TestFailOversOfACluster(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewCluster(t, 3, 1)
	for _, f := range []struct {
		name string
		test func(t *testing.T, c *redistest.Cluster)
	}{
		{"a record moves with its slot", testMovedSlot},
		{"a record survives a planned fail-over", testPlannedFailOver},
		{"an answer that no replica has is not reported", testLaggingReplica},
		{"without replicas that acknowledge it a record is lost", testLostRecord},
	} {
		t.Run(f.name, func(t *testing.T) { f.test(t, c) })
	}
}

func testMovedSlot(t *testing.T, c *redistest.Cluster) {
	site, shop := newSite(c), &shop{}
	once, moved := idempotency.New(site.client(t, acknowledged)), make(chan struct{})
	got, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, shop.during(func() {
		c.BeginMove(site.key())
		c.MoveKeys(site.key()) // from now on no script finds all its keys on one node
		go func() {
			defer close(moved)
			c.FinishMove(site.key())
		}()
	}))
	<-moved
	if err != nil || got.Number != 1 {
		t.Errorf("a run whose slot moved got %v, %v", got, err)
	}
	c.Move(site.key())
	if got, err = shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
		t.Errorf("a repetition got %v, %v", got, err)
	}
}

func testPlannedFailOver(t *testing.T, c *redistest.Cluster) {
	site, shop := newSite(c), &shop{}
	once := idempotency.New(site.client(t, acknowledged))
	got, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, shop.during(func() { c.Depose(site.key()) }))
	if err != nil || got.Number != 1 {
		t.Errorf("a run during a fail-over got %v, %v", got, err)
	}
	if got, err = shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
		t.Errorf("a repetition got %v, %v", got, err)
	}
}

// takeOver kills the master that has the record, and waits until its replica serves the key.
func takeOver(c *redistest.Cluster, name string) {
	old := c.Owner(name)
	c.Nodes[old].Kill()
	c.AwaitPromoted(name, old)
}

func testLaggingReplica(t *testing.T, c *redistest.Cluster) {
	site, shop := newSite(c), &shop{}
	once := idempotency.New(site.client(t, acknowledged, lockmw.WithUnlockTimeout(500*time.Millisecond)))
	_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, shop.during(func() { c.Starve(c.Owner(site.key())) }))
	isError(t, err, idempotency.ErrNotRecorded)
	takeOver(c, site.key())
	once = idempotency.New(site.client(t), idempotency.WithWait(time.Minute)) // until the lease has expired
	_, err = shop.do(once, "tea", idempotency.Refuse)
	isError(t, err, idempotency.ErrUnknownOutcome)
	if n := shop.count(); n != 1 {
		t.Errorf("the work ran %d times", n)
	}
}

// testLostRecord shows the gap that docs/idempotency.md states.
func testLostRecord(t *testing.T, c *redistest.Cluster) {
	site, shop := newSite(c), &shop{}
	c.Move(site.key()) // to a master whose replica runs
	once := idempotency.New(site.client(t))
	for number := 1; number <= 2; number++ {
		if number == 1 {
			c.Starve(c.Owner(site.key()))
		} else {
			takeOver(c, site.key())
		}
		if got, err := shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != number {
			t.Errorf("call %d got %v, %v", number, got, err)
		}
	}
}
