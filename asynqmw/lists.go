package asynqmw

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A lists is what is kept in the Redis of the queues about parked tasks: for each queue and lock the list of the tasks
// that are to be called when the lock is free. It stands beside asynq's own keys, and reads and moves tasks as
// asynq 0.26 lays them out.
type lists struct{ rdb redis.UniversalClient }

const (
	// listsLast is how long a list outlives the last task that was parked.
	listsLast = longestAway + 2*time.Minute
	// arrival is how long a task that was called is waited for before the next one is called.
	arrival = 2 * time.Second
	// looksAtMost is how many locks are looked at together.
	looksAtMost = 1000
)

var (
	//go:embed park.lua
	parkLua    string
	parkScript = redis.NewScript(parkLua)

	//go:embed promote.lua
	promoteLua    string
	promoteScript = redis.NewScript(promoteLua)
)

// A parkAnswer is what becomes of a task with a busy lock.
type parkAnswer struct {
	what   parkAction
	rank   int  // in the list
	called bool // it was called from the list
}

type parkAction int

const (
	unknownTask parkAction = iota // the queue is elsewhere, or its layout is another
	waitInWorker
	parkTask
	refuseTask   // by what parkCall says
	leaveGrouped // it cannot be called
)

// A parkWhen says when a task may be parked.
type parkWhen int

const (
	parkAnyway parkWhen = iota
	parkIfCalled
	parkNever
)

// A parkCall asks what becomes of a task with a busy lock.
type parkCall struct {
	crowdID

	id      string
	nonce   string // what the task's last error will have
	state   string // of the task: active, or scheduled for a copy
	mayWait bool
	when    parkWhen
}

func (l lists) park(ctx context.Context, c parkCall) (parkAnswer, error) {
	keys := []string{listOf(c.queue, c.lock), listsOf(c.queue), taskPrefix(c.queue) + c.id, inQueue(c.queue, "pending")}
	got, err := parkScript.Run(ctx, l.rdb, keys,
		c.id, c.nonce, c.lock, listsLast.Milliseconds(), c.state, flag(c.mayWait), int(c.when)).Int64Slice()
	if err != nil {
		return parkAnswer{}, err
	}
	if len(got) != 3 {
		return parkAnswer{}, fmt.Errorf("asynqmw: unexpected answer %v of park.lua", got)
	}
	return parkAnswer{what: parkAction(got[0]), rank: int(got[1]), called: got[2] == 1}, nil
}

// A promotion is what came of an attempt to call tasks.
type promotion struct {
	moved int
	left  int  // how many are on the list; -1: it was not looked at
	soon  bool // to be tried again at once
}

// promote calls up to n tasks of a list. With ahead it does so only if no task waits for a worker.
func (l lists) promote(ctx context.Context, id crowdID, n int, ahead bool) (promotion, error) {
	queue, list := id.queue, listOf(id.queue, id.lock)
	keys := []string{
		list, listsOf(queue), list + ":called",
		inQueue(queue, "pending"), inQueue(queue, "retry"), inQueue(queue, "scheduled"), inQueue(queue, "paused"),
	}
	got, err := promoteScript.Run(ctx, l.rdb, keys,
		taskPrefix(queue), id.lock, n, flag(ahead), time.Now().UnixNano(), arrival.Milliseconds()).Int64Slice()
	if err != nil {
		return promotion{}, err
	}
	if len(got) != 3 {
		return promotion{}, fmt.Errorf("asynqmw: unexpected answer %v of promote.lua", got)
	}
	return promotion{moved: int(got[0]), left: int(got[1]), soon: got[2] == 1}, nil
}

// locks returns locks that have a list in a queue: all, or some at random if there are many.
func (l lists) locks(ctx context.Context, queue string) ([]string, error) {
	return l.rdb.SRandMemberN(ctx, listsOf(queue), looksAtMost).Result()
}

func inQueue(queue, name string) string { return "asynq:{" + queue + "}:" + name }
func taskPrefix(queue string) string    { return inQueue(queue, "t:") }
func listsOf(queue string) string       { return inQueue(queue, "lockmw:locks") }
func listOf(queue, lock string) string  { return inQueue(queue, "lockmw:parked:") + lock }

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
