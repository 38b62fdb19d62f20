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

	"github.com/lockmw/go/internal/transport"
)

// This file and the scripts next to it are the only code that depends on asynq's own data, which its public interface does not
// promise: the keys, the states of a task, the moves between its sets, and the data that asynq stores for an attempt. asynq's
// public interface can retry a task after a delay, at the end of its queue. It cannot record for which lock a task waits, wake
// it only if nothing else has happened to it, or put it in front of other tasks.

const (
	// Module is the path of asynq.
	Module = "github.com/hibiken/asynq"
	// Release is the supported release of asynq. The next minor release may store its tasks in another way.
	Release = "v0.26"
)

// CheckLinked returns an error if this program is linked with a release of asynq that may store its tasks in another way. asynq
// does not store its version in Redis. A program without a record of its modules, such as a test, passes; there Park notices if
// a task is not where it should be.
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
			return fmt.Errorf("unsupported asynq %s %s: only %s %s.x is supported", m.Path, m.Version, Module, Release)
		}
	}
	return nil
}

// IsEnqueue reports whether asynq may enqueue a task by this command. It enqueues by scripts.
func IsEnqueue(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

// FoundNothing reports whether this log record of asynq says that its processor found all queues empty. The processor then
// pauses.
func FoundNothing(logged []any) bool { return len(logged) == 1 && logged[0] == "All queues are empty" }

// Delay returns the delay after which asynq retries a task at due. asynq stores whole seconds.
func Delay(due time.Time) time.Duration { return time.Until(due.Add(time.Second / 2)) }

// AllQueues is the key of asynq's set of all queues.
const AllQueues = "asynq:queues"

// InQueue returns a key of a queue.
func InQueue(queue, name string) string { return "asynq:{" + queue + "}:" + name }

// TaskPrefix returns the prefix of the keys of a queue's tasks.
func TaskPrefix(queue string) string { return InQueue(queue, "t:") }

// LocksOf returns the key of the set of locks that have a list in a queue. The set contains their Redis keys.
func LocksOf(queue string) string { return InQueue(queue, "lockmw:locks") }

// ListOf returns the key of the list of a lock in a queue: ids of tasks, by the time when they came first (µs).
func ListOf(queue, lock string) string { return InQueue(queue, "lockmw:parked:") + lock }

// A Store parks tasks in the Redis of asynq's queues. For each queue and lock it has a list, next to asynq's own keys, of the
// tasks to be woken when the lock is free.
type Store struct{ Redis redis.UniversalClient }

// A ListID names a list: a queue, and the Redis key of the lock that its tasks want.
type ListID struct{ Queue, Lock string }

const (
	// maxPause exceeds the time after which asynq retries a parked task that nothing wakes. park.lua chooses that time.
	maxPause = 10 * time.Minute
	// listsLast is the TTL of a list after the last task was parked.
	listsLast = maxPause + 2*time.Minute
	// arrival bounds the time in which a woken task gets its lock or is parked again.
	arrival = 2 * time.Second
	// callTimeout bounds a call to Redis.
	callTimeout = 2 * time.Second
	// MostLists is the greatest number of lists that Look returns.
	MostLists = 1000
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

// IsUndeclared reports whether the server refused a script because it uses keys that it does not declare. The scripts here do,
// because they find the tasks of a list by their ids; asynq's own scripts do so as well. Dragonfly refuses them by default, with
// "script tried accessing undeclared key".
func IsUndeclared(err error) bool { return transport.IsUndeclared(err) }

// A BusyTask is a task that met a busy lock.
type BusyTask struct {
	ListID

	ID          string
	Began       time.Time     // when its attempt began
	Stay        time.Duration // how long it may wait in its worker
	Mean        time.Duration // how long a task holds the lock
	OnlyIfWoken bool          // it may be parked only if it was woken
	Last        bool          // this is its last attempt, so asynq archives it
}

// An Answer tells what to do with a task that met a busy lock.
type Answer struct {
	Action Action
	Due    time.Time // when asynq retries it if nothing wakes it; see Delay
	Woken  bool      // it was woken from the list
}

// An Action is the next step of a task.
type Action int

// park.lua returns these numbers.
const (
	Unknown      Action = iota // no such task is active here: the queue is elsewhere, or asynq's keys have changed
	WaitInWorker               // and park it if it does not get the lock
	Park
	Refuse       // because of Busy.OnlyIfWoken
	LeaveGrouped // it belongs to a group and cannot be woken
)

// Park puts a task on its list.
func (s Store) Park(ctx context.Context, b BusyTask) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	keys := []string{ListOf(b.Queue, b.Lock), LocksOf(b.Queue), TaskPrefix(b.Queue) + b.ID, InQueue(b.Queue, "pending")}
	got, err := parkScript.Run(ctx, s.Redis, keys, b.ID, b.Lock, listsLast.Milliseconds(), b.Began.UnixMicro(), time.Since(b.Began).Microseconds(),
		b.Stay.Microseconds(), b.OnlyIfWoken, b.Last, TaskPrefix(b.Queue), b.Mean.Microseconds(), rand.N(1000)).Int64Slice()
	if err != nil {
		return Answer{}, err
	}
	if len(got) != 3 {
		return Answer{}, fmt.Errorf("asynqmw: unexpected answer %v of park.lua", got)
	}
	return Answer{Action: Action(got[0]), Due: time.Unix(got[1], 0), Woken: got[2] == 1}, nil
}

// A When is the condition for waking tasks.
type When string

// wake.lua compares these words.
const (
	Anyway When = "anyway"
	Ahead  When = "ahead" // before the release, if no other task waits for a worker
	Held   When = "held"  // to wait with others, if no older task waits in its worker
)

// A WakeResult is the result of Wake.
type WakeResult struct {
	Left      int  // number of tasks on the list; -1: it was not read
	WakeAgain bool // wake again immediately
	Moved     bool // tasks were moved to the front of their queue
	Next      bool // with Ahead: a task is on its way, or waits in its worker
}

// Wake moves tasks of a list to the front of their queue, until n are on their way or wait. Tasks in gone have got the lock,
// and are removed from the list.
func (s Store) Wake(w ListID, n int, when When, gone []string) (WakeResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
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
		return WakeResult{}, err
	}
	if len(got) != 4 {
		return WakeResult{}, fmt.Errorf("asynqmw: unexpected answer %v of wake.lua", got)
	}
	return WakeResult{Left: int(got[0]), WakeAgain: got[1] == 1, Moved: got[2] > 0, Next: got[3] > 0}, nil
}

// State returns asynq's name of the state of a task; "" if there is no such task.
func (s Store) State(ctx context.Context, queue, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	state, err := s.Redis.HGet(ctx, TaskPrefix(queue)+id, "state").Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return state, err
}

// Active is the state of a task that is in a worker.
const Active = "active"

// Restore puts a task that asynq has archived into the retry set, to be retried at due. The attempt that began at began was its
// last, but only its lock was busy; isParked says whether Park has parked it. It reports whether the attempt is still active.
func (s Store) Restore(queue, id string, began, due time.Time, isParked bool) (active bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	now := time.Now().UTC()
	day := now.Format(time.DateOnly)
	keys := []string{TaskPrefix(queue) + id}
	for _, name := range []string{"archived", "retry", "processed:" + day, "failed:" + day, "processed", "failed"} {
		keys = append(keys, InQueue(queue, name))
	}
	what, err := restoreScript.Run(ctx, s.Redis, keys, id, began.UnixMicro(), due.Unix(), now.Unix()/86400, isParked).Int()
	return what == 2, err
}
