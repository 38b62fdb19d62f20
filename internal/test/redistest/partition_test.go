package redistest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
)

// wantTaken checks that a server has a written key.
func wantTaken(t *testing.T, what string, s *redistest.Server, key string, taken bool) {
	t.Helper()
	if n := s.NewClient(t).Exists(t.Context(), key).Val(); n == 1 != taken {
		t.Errorf("%s: %d keys, want 1", what, n)
	}
}

func TestAMasterOfAClusterThatIsCutOffIsReplaced(t *testing.T) {
	suite.NeedsFull(t, "a Cluster takes seconds to form")
	t.Parallel()
	c := redistest.NewDivisibleCluster(t, 3, 1)
	key := c.KeyAt(0)
	old := c.Nodes[0].NewClient(t)
	c.CutOff(0)
	write(t, old, key) // no other node receives this
	promoted := c.AwaitPromoted(key, 0)
	if promoted != 3 {
		t.Errorf("node %d was promoted", promoted)
	}
	wantTaken(t, "the new master", c.Nodes[promoted], key, false)
	c.Rejoin(0)
	c.AwaitSettled()
	write(t, c.Client(t), key)
}

func TestAMasterThatSentinelsLoseIsReplaced(t *testing.T) {
	suite.NeedsFull(t, "a fail-over takes seconds")
	t.Parallel()
	s := redistest.NewDivisibleSentinel(t, 1, 3)
	old := s.Nodes[0].NewClient(t, func(o *redis.Options) { o.MaxRetries = -1 })
	s.CutOff(0)
	write(t, old, "key") // no other node receives this
	promoted := s.AwaitPromoted(0)
	wantTaken(t, "the new master", s.Nodes[promoted], "key", false)
	wantTaken(t, "the old one", s.Nodes[0], "key", true)
	s.Rejoin(0)
	s.AwaitSettled()
	wantTaken(t, "the old one, as a replica", s.Nodes[0], "key", false)
}
