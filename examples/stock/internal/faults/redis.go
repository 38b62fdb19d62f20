package faults

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/examples/stock/internal/ways"
)

// inRedis returns the scripts of the ways that count in Redis.
func inRedis() []Script {
	return []Script{
		{
			Way: "lua-queue", Name: "a process dies between the script and the queue",
			Play: func(s *Stage) {
				s.kill(s.begin(here, "ann", stopAt(ways.Reserved)))
				s.noteMissing()
				s.reopen(here) // enqueues such orders
				s.awaitRecovery()
			},
			Want: Facts{Sold: 1, Missing: 1, Recovered: 1},
		},
		{
			Way: "lua-queue", Name: "the worker of the queue dies",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Taken))
				s.kill(ann)
				s.noteMissing()
				s.endWorkersLease()
				s.reopen(ann.shop)
				s.awaitRecovery()
			},
			Want: Facts{Sold: 1, Accepted: 1, Missing: 1, Recovered: 1},
		},
		{
			Way: "watch", Name: "another process buys between read and EXEC",
			Play: boughtMeanwhile,
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "watch", Name: "a process dies between EXEC and the database",
			Play: func(s *Stage) {
				s.kill(s.begin(here, "ann", stopAt(ways.Reserved)))
				s.noteMissing()
			},
			Want: Facts{Missing: 1},
		},
	}
}

// endWorkersLease moves the end of asynq's lease on the worker's task into the past. Otherwise it would expire after 30
// seconds, and asynq would wait for 30 more.
func (s *Stage) endWorkersLease() {
	if s.err != nil {
		return
	}
	key := "asynq:{" + s.env.Name + "}:lease"
	tasks, err := s.env.Redis.ZRange(s.ctx, key, 0, -1).Result()
	s.must(err)
	if len(tasks) != 1 {
		s.fail("%d tasks are being worked on, not one", len(tasks))
		return
	}
	ended := float64(time.Now().Add(-2 * time.Minute).Unix())
	s.must(s.env.Redis.ZAdd(s.ctx, key, redis.Z{Score: ended, Member: tasks[0]}).Err())
}
