package redistest_test

import (
	"testing"

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
