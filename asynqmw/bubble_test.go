package asynqmw_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/redistest"
)

// pipedRedis is an embedded Redis without a port, for asynq in a bubble.
type pipedRedis struct {
	t testing.TB
	s *redistest.Server
}

// MakeRedisClient implements asynq.RedisConnOpt.
func (r pipedRedis) MakeRedisClient() any { return r.s.NewClient(r.t) }

// inBubble runs a timing test in a synctest bubble, whose clock advances only when all goroutines are blocked. The test must not run
// in parallel with others.
func inBubble(t *testing.T, test func(t *testing.T, redis asynq.RedisConnOpt)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(10 * time.Second) }) // until the goroutines of asynq and go-redis have ended
		test(t, pipedRedis{t, redistest.Piped(t)})
	})
}
