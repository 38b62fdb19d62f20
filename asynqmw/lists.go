package asynqmw

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
)

// A lists is what is kept in the Redis of the queues about parked tasks: for each queue and lock the list of the tasks
// that are to be called when the lock is free. It stands beside asynq's own keys, and reads and moves tasks as
// asynq 0.26 lays them out.
type lists struct{ rdb redis.UniversalClient }

const (
	// listsLast is how long a list outlives the last task that was parked.
	listsLast = longestAway + 2*time.Minute
	// arrival is how long a task that was called takes to wait for its lock at most.
	arrival = 2 * time.Second
	// answerIn is how long a call to Redis may take.
	answerIn = 2 * time.Second
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
	letOlderGo   // ask again: an older task was called, and is to wait first
)

// A parkCall asks what becomes of a task with a busy lock.
type parkCall struct {
	crowdID

	id       string
	nonce    string        // which the task's last error will have
	waited   time.Duration // so far
	stay     time.Duration // how long it may wait in its worker
	ifCalled bool          // it may be parked only if it was called
	last     bool          // asynq archives it
	hurried  bool          // it lets no older task go first
}

func (l lists) park(ctx context.Context, c parkCall) (parkAnswer, error) {
	keys := []string{parked.ListOf(c.queue, c.lock), parked.LocksOf(c.queue), parked.TaskPrefix(c.queue) + c.id, parked.InQueue(c.queue, "pending")}
	got, err := parkScript.Run(ctx, l.rdb, keys, c.id, c.nonce, c.lock, listsLast.Milliseconds(),
		c.waited.Microseconds(), c.stay.Microseconds(), flag(c.ifCalled), flag(c.last), parked.TaskPrefix(c.queue), flag(c.hurried)).Int64Slice()
	if err != nil {
		return parkAnswer{}, err
	}
	if len(got) != 3 {
		return parkAnswer{}, fmt.Errorf("asynqmw: unexpected answer %v of park.lua", got)
	}
	return parkAnswer{what: parkAction(got[0]), rank: int(got[1]), called: got[2] == 1}, nil
}

// A callWhen says when tasks are to be called.
type callWhen string

const (
	callAnyway callWhen = "anyway"
	callAhead  callWhen = "ahead" // of the release, if no other task waits for a worker
	callHeld   callWhen = "held"  // to wait with others, if no older task waits in its worker
)

// A promotion is what came of an attempt to call tasks.
type promotion struct {
	moved int
	left  int  // how many are on the list; -1: it was not looked at
	soon  bool // to be tried again immediately
}

// promote calls tasks of a list, until n are on their way or wait. Tasks that have got the lock leave the list.
func (l lists) promote(ctx context.Context, id crowdID, n int, when callWhen, gone []string) (promotion, error) {
	queue := id.queue
	keys := []string{
		parked.ListOf(queue, id.lock), parked.LocksOf(queue),
		parked.InQueue(queue, "pending"), parked.InQueue(queue, "retry"), parked.InQueue(queue, "archived"), parked.InQueue(queue, "paused"),
	}
	args := []any{parked.TaskPrefix(queue), id.lock, n, string(when), time.Now().UnixNano(), arrival.Microseconds()}
	for _, task := range gone {
		args = append(args, task)
	}
	got, err := promoteScript.Run(ctx, l.rdb, keys, args...).Int64Slice()
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
	return l.rdb.SRandMemberN(ctx, parked.LocksOf(queue), looksAtMost).Result()
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
