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

// inBubble runs a test about the time that a task has: it passes only when nothing else is left to do. The test must not be
// parallel to others.
func inBubble(t *testing.T, test func(t *testing.T, redis asynq.RedisConnOpt)) {
	t.Helper()
	defer race.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(10 * time.Second) }) // until the goroutines of asynq and go-redis have ended
		test(t, pipedRedis{t, redistest.Piped(t)})
	})
}
