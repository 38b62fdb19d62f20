package redistest

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redisserver"
)

// Slotted starts a real server that has all slots of a Cluster, stopped when the test ends. Like a proxy in front of several servers
// it refuses scripts whose keys are in several slots, and a plain client can use it: it never redirects one.
func Slotted(t testing.TB, args ...string) *Server {
	t.Helper()
	s := startReal(t, redisserver.StartNode, args)
	rdb := s.NewClient(t)
	all := make([]int, slots)
	for i := range all {
		all[i] = i
	}
	if err := rdb.ClusterAddSlots(t.Context(), all...).Err(); err != nil {
		t.Fatal(err)
	}
	await(t, "the server has all slots", func() string {
		if err := rdb.Get(t.Context(), "any").Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err.Error()
		}
		return ""
	})
	return s
}
