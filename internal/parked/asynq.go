package parked

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// All that lockmw knows of asynq's own data, which its public interface does not promise, stands in this file and in the scripts
// next to it: the keys, the states of a task, the moves between its lists, and what asynq stores of an attempt.
// asynq's public interface can put a task back after a delay, and run it again at the end of its queue. It cannot
// tell for which lock a task waits, wake it only if nothing else has happened to it since, or put it in front of others.

const (
	// Module is the path of asynq.
	Module = "github.com/hibiken/asynq"
	// Release is the release of asynq that this file was written for. The next minor one may keep its tasks in
	// another way.
	Release = "v0.26"
)

// CheckLinked returns an error if this program is linked with an asynq that may keep its tasks in another way than this
// package knows. asynq does not store its version in Redis. A program without a record of its modules, such as a test,
// is not refused: there Park sees whether a task is where it should be.
func CheckLinked() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	return check(info.Deps)
}

func check(modules []*debug.Module) error {
	for _, m := range modules {
		if m.Path != Module {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Path != Module || !strings.HasPrefix(m.Version, Release+".") || strings.Contains(m.Version, "-") {
			return fmt.Errorf("asynq is %s %s, and only %s %s.x is known", m.Path, m.Version, Module, Release)
		}
	}
	return nil
}

// IsEnqueue reports whether asynq may enqueue a task by a command: it does so by scripts.
func IsEnqueue(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

// FoundNothing reports whether asynq's processor has found all queues empty, by what it then logs. It pauses when this is logged.
func FoundNothing(logged []any) bool { return len(logged) == 1 && logged[0] == "All queues are empty" }

// Delay returns the delay after which asynq, which stores whole seconds, retries a task at due.
func Delay(due time.Time) time.Duration { return time.Until(due.Add(time.Second / 2)) }

// AllQueues is asynq's set of all queues.
const AllQueues = "asynq:queues"

// InQueue returns a key of a queue.
func InQueue(queue, name string) string { return "asynq:{" + queue + "}:" + name }

// TaskPrefix is what the keys of a queue's tasks begin with.
func TaskPrefix(queue string) string { return InQueue(queue, "t:") }

// LocksOf is the set of the locks that have a list in a queue, by their Redis keys.
func LocksOf(queue string) string { return InQueue(queue, "lockmw:locks") }

// ListOf is the list of a lock in a queue: ids of tasks, by when they came first (µs).
func ListOf(queue, lock string) string { return InQueue(queue, "lockmw:parked:") + lock }

// A Store is where tasks are parked: the Redis of asynq's queues. For each queue and lock it has a list of the tasks that are
// to be woken when the lock is free, next to asynq's own keys.
type Store struct{ Redis redis.UniversalClient }

// A Want is what the tasks of a queue want that are on one list: a lock, by its Redis key.
type Want struct{ Queue, Lock string }

const (
	// longestAway is more than a parked task is away if nothing wakes it: park.lua says how long.
	longestAway = 10 * time.Minute
	// listsLast is how long a list outlives the last task that was parked.
	listsLast = longestAway + 2*time.Minute
	// arrival is how long a task that was woken takes to get its lock or be parked at most.
	arrival = 2 * time.Second
	// AnswerIn is how long a call to Redis may take.
	AnswerIn = 2 * time.Second
	// looksAtMost is how many locks are looked at together.
	looksAtMost = 1000
)

var (
	//go:embed sign.lua
	signLua string
	//go:embed park.lua
	parkLua string
	//go:embed wake.lua
	wakeLua string
	//go:embed restore.lua
	restoreLua string

	parkScript    = redis.NewScript(signLua + parkLua)
	wakeScript    = redis.NewScript(signLua + wakeLua)
	restoreScript = redis.NewScript(signLua + restoreLua)
)

// A Busy is a task that met a busy lock.
type Busy struct {
	Want

	ID          string
	Began       time.Time     // its attempt
	Stay        time.Duration // how long it may wait in its worker
	Mean        time.Duration // how long a task has the lock
	OnlyIfWoken bool          // it may be parked only if it was woken
	Last        bool          // asynq archives it
}

// An Answer is what becomes of a task with a busy lock.
type Answer struct {
	What  Action
	Due   time.Time // when it comes back by the clock; see Delay
	Woken bool      // it was woken from the list
}

// An Action is what becomes of a task.
type Action int

// park.lua returns these numbers.
const (
	Unknown      Action = iota // the queue is elsewhere, or its layout is another
	WaitInWorker               // and park it if that is in vain
	Park
	Refuse       // as Busy.OnlyIfWoken says
	LeaveGrouped // it belongs to a group and cannot be woken
)

// Park puts a task on its list.
func (s Store) Park(ctx context.Context, b Busy) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerIn)
	defer cancel()
	keys := []string{ListOf(b.Queue, b.Lock), LocksOf(b.Queue), TaskPrefix(b.Queue) + b.ID, InQueue(b.Queue, "pending")}
	got, err := parkScript.Run(ctx, s.Redis, keys, b.ID, b.Lock, listsLast.Milliseconds(), b.Began.UnixMicro(), time.Since(b.Began).Microseconds(),
		b.Stay.Microseconds(), flag(b.OnlyIfWoken), flag(b.Last), TaskPrefix(b.Queue), b.Mean.Microseconds(), rand.N(1000)).Int64Slice()
	if err != nil {
		return Answer{}, err
	}
	if len(got) != 3 {
		return Answer{}, fmt.Errorf("asynqmw: unexpected answer %v of park.lua", got)
	}
	return Answer{What: Action(got[0]), Due: time.Unix(got[1], 0), Woken: got[2] == 1}, nil
}

// A When says when tasks are to be woken.
type When string

// wake.lua compares these words.
const (
	Anyway When = "anyway"
	Ahead  When = "ahead" // of the release, if no other task waits for a worker
	Held   When = "held"  // to wait with others, if no older task waits in its worker
)

// A Wakening is what came of an attempt to wake tasks.
type Wakening struct {
	Left int  // how many are on the list; -1: it was not looked at
	Soon bool // to be tried again immediately
	Some bool // tasks were moved to the front of their queue
	Next bool // Ahead: a task is on its way, or waits in its worker
}

// Wake moves tasks of a list to the front of their queue, until n are on their way or wait. Tasks that have got the lock
// leave the list.
func (s Store) Wake(w Want, n int, when When, gone []string) (Wakening, error) {
	ctx, cancel := context.WithTimeout(context.Background(), AnswerIn)
	defer cancel()
	keys := []string{ListOf(w.Queue, w.Lock), LocksOf(w.Queue)}
	for _, name := range []string{"pending", "retry", "archived", "paused"} {
		keys = append(keys, InQueue(w.Queue, name))
	}
	args := []any{TaskPrefix(w.Queue), w.Lock, n, string(when), time.Now().UnixNano(), arrival.Microseconds()}
	for _, task := range gone {
		args = append(args, task)
	}
	got, err := wakeScript.Run(ctx, s.Redis, keys, args...).Int64Slice()
	if err != nil {
		return Wakening{}, err
	}
	if len(got) != 4 {
		return Wakening{}, fmt.Errorf("asynqmw: unexpected answer %v of wake.lua", got)
	}
	return Wakening{Left: int(got[0]), Soon: got[1] == 1, Some: got[2] > 0, Next: got[3] > 0}, nil
}

// State returns asynq's name of the state of a task; "" if there is no such task.
func (s Store) State(ctx context.Context, queue, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerIn)
	defer cancel()
	state, err := s.Redis.HGet(ctx, TaskPrefix(queue)+id, "state").Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return state, err
}

// Active is the state of a task that is in a worker.
const Active = "active"

// Restore puts a task back, to be retried at due, that asynq has archived: an attempt that began then was its last, but only its
// lock was busy, whether Park has parked it or not. It reports whether the attempt is still active.
func (s Store) Restore(queue, id string, began, due time.Time, isParked bool) (active bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), AnswerIn)
	defer cancel()
	now := time.Now().UTC()
	day := now.Format(time.DateOnly)
	keys := []string{TaskPrefix(queue) + id}
	for _, name := range []string{"archived", "retry", "processed:" + day, "failed:" + day, "processed", "failed"} {
		keys = append(keys, InQueue(queue, name))
	}
	what, err := restoreScript.Run(ctx, s.Redis, keys, id, began.UnixMicro(), due.Unix(), now.Unix()/86400, flag(isParked)).Int()
	return what == 2, err
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
