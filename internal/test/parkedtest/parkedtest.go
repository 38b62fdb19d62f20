// Package parkedtest stores tasks as asynq and asynqmw do when a lock is busy, for tests of code that reads them.
package parkedtest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
)

// Park stores tasks of a queue that have been parked since a time, one after the other, for a lock with that Redis key.
func Park(t testing.TB, rdb redis.UniversalClient, queue, lock string, since time.Time, ids ...string) {
	t.Helper()
	ctx := t.Context()
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.SAdd(ctx, parked.AllQueues, queue)
		pipe.SAdd(ctx, parked.LocksOf(queue), lock)
		for i, id := range ids {
			pipe.HSet(ctx, parked.TaskPrefix(queue)+id, "state", "retry", "lockmw", "p1 1 1 2000000000")
			pipe.ZAdd(ctx, parked.InQueue(queue, "retry"), redis.Z{Score: 2_000_000_000, Member: id})
			pipe.ZAdd(ctx, parked.ListOf(queue, lock), redis.Z{Score: float64(since.UnixMicro() + int64(i)), Member: id})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
