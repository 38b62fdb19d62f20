package redistest_test

import (
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

func TestSentinelsPromoteReplicas(t *testing.T) {
	suite.NeedsFull(t, "a fail-over takes seconds")
	t.Parallel()
	s := redistest.NewSentinel(t, 2, 3)
	write(t, s.Client(t), "k")

	second := s.Failover()
	if second == 0 || s.Master() != second {
		t.Errorf("the master is node %d, after a fail-over to node %d", s.Master(), second)
	}
	s.AwaitSettled()
	holds(t, s.Client(t), "k")

	s.Nodes[second].Kill()
	third := s.AwaitPromoted(second)
	s.AwaitSettled()
	holds(t, s.Client(t), "k")
	if master := s.Master(); master != third {
		t.Errorf("the master is node %d, and node %d was promoted", master, third)
	}
}

// A Sentinel gives a fail-over up because the replica refuses to be the master.
func TestAFailOverThatASentinelGivesUpIsRepeated(t *testing.T) {
	suite.NeedsFull(t, "a fail-over takes seconds")
	t.Parallel()
	s := redistest.NewSentinel(t, 1, 1)
	c := redis.NewSentinelClient(&redis.Options{Addr: s.Addrs()[0]})
	defer c.Close()
	if err := c.Set(t.Context(), redistest.MasterName, "failover-timeout", "1000").Err(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	givenUp := c.PSubscribe(t.Context(), "-failover-abort*")
	defer givenUp.Close()
	if _, err := givenUp.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	replica := s.Nodes[1].NewClient(t)
	may := func(rule string) {
		if err := replica.Do(t.Context(), "ACL", "SETUSER", "default", rule+"replicaof", rule+"slaveof").Err(); err != nil {
			t.Error(err)
		}
	}
	may("-")
	wg.Go(func() {
		if _, err := givenUp.ReceiveMessage(t.Context()); err != nil {
			t.Errorf("the Sentinel does not give up: %v", err)
		}
		may("+")
	})
	if promoted := s.Failover(); promoted != 1 {
		t.Errorf("node %d was promoted", promoted)
	}
}
