// Package parked stores and reads the tasks of asynq that wait for locks. Each lock has a list, next to asynq's own keys.
// asynqmw parks and wakes tasks; the command and the inspector read the lists, without asynq. Only asynq.go and the scripts
// next to it depend on how asynq stores its tasks.
package parked

import (
	"context"
	_ "embed" // the script
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

//go:embed list.lua
var listLua string

// A Task waits for a lock.
type Task struct {
	Key   string // of the lock
	Queue string
	ID    string
	Place int       // among the tasks of its queue that wait for the lock; 1 is the first
	Since time.Time // when its first attempt began, by the clock of the queue's Redis
	// State is "parked" for a task that is back in its queue, "woken" for a task on its way to a worker, and "waiting" for a task
	// that waits in its worker.
	State string
}

// A List contains the tasks that wait for one lock, by queue and place.
type List struct {
	Tasks []Task
	More  int // approximate number of tasks that are not in Tasks
}

const (
	// MaxTasks is the greatest number of tasks that are read for a queue and lock.
	MaxTasks = 100
	// queuesKnownFor is how long a Reader uses its list of queues before it reads them again.
	queuesKnownFor = 5 * time.Second
	// page is the number of locks read together.
	page = 500
)

// A Reader reads the lists of the locks with one prefix. It is safe for concurrent use.
type Reader struct {
	rdb    redis.UniversalClient
	layout script.Layout

	mu     sync.Mutex
	queues []string
	asked  time.Time // when the queues were read
}

// NewReader returns a Reader for the Redis of asynq's queues.
func NewReader(rdb redis.UniversalClient, prefix string) *Reader {
	return &Reader{rdb: rdb, layout: script.NewLayout(prefix, transport.Topology{})} // the keys of holders are the same in all layouts
}

// Tasks returns the tasks that wait for a key. It returns none if Redis has no queues of asynq.
func (r *Reader) Tasks(ctx context.Context, key string) (List, error) {
	queues, err := r.allQueues(ctx)
	if err != nil || len(queues) == 0 {
		return List{}, err
	}
	keys := r.layout.KeySet(key)
	places := make([]place, len(queues))
	for i, queue := range queues {
		places[i] = place{queue, key, keys.Holder()}
	}
	return r.read(ctx, places)
}

// All yields the tasks that wait for each key, queue by queue. After an error it yields the error and ends.
func (r *Reader) All(ctx context.Context) iter.Seq2[List, error] {
	return func(yield func(List, error) bool) {
		queues, err := r.allQueues(ctx)
		for _, queue := range queues {
			for cursor, more := uint64(0), true; more && err == nil; more = cursor != 0 {
				var locks []string
				if locks, cursor, err = r.rdb.SScan(ctx, LocksOf(queue), cursor, "", page).Result(); err != nil {
					break
				}
				var list List
				if list, err = r.read(ctx, r.placesOf(queue, locks)); err == nil && !yield(list, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(List{}, err)
		}
	}
}

// A place is the list of one lock in a queue.
type place struct{ queue, key, lock string }

// placesOf returns the lists of these locks. It leaves out locks with another prefix.
func (r *Reader) placesOf(queue string, locks []string) (places []place) {
	slices.Sort(locks)
	for _, lock := range locks {
		if key, ok := r.layout.Key(lock); ok {
			places = append(places, place{queue, key, lock})
		}
	}
	return places
}

// allQueues returns the queues. Calls that find them outdated at the same time may each read them: none waits for another's answer.
func (r *Reader) allQueues(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	queues, known := r.queues, !r.asked.IsZero() && time.Since(r.asked) < queuesKnownFor
	r.mu.Unlock()
	if known {
		return queues, nil
	}
	queues, err := r.rdb.SMembers(ctx, AllQueues).Result()
	if err != nil {
		return nil, err
	}
	slices.Sort(queues)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queues, r.asked = queues, time.Now()
	return queues, nil
}

func (r *Reader) read(ctx context.Context, places []place) (all List, err error) {
	pipe := r.rdb.Pipeline()
	answers := make([]*redis.Cmd, len(places))
	for i, p := range places {
		keys := []string{ListOf(p.queue, p.lock), InQueue(p.queue, "retry"), InQueue(p.queue, "archived")}
		answers[i] = pipe.Eval(ctx, signLua+listLua, keys, TaskPrefix(p.queue), MaxTasks, p.lock)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return List{}, err
	}
	for i, answer := range answers {
		if err := all.add(places[i], answer); err != nil {
			return List{}, err
		}
	}
	return all, nil
}

// add adds an answer of list.lua.
func (l *List) add(p place, answer *redis.Cmd) error {
	fields, err := answer.Slice()
	if err != nil {
		return err
	}
	if len(fields)%3 != 1 {
		return fmt.Errorf("unexpected answer %v of list.lua", fields)
	}
	more, err := strconv.Atoi(fmt.Sprint(fields[0]))
	if err != nil {
		return fmt.Errorf("unexpected answer %v of list.lua: %w", fields, err)
	}
	l.More += more
	for i := 1; i < len(fields); i += 3 {
		score, err := strconv.ParseFloat(fmt.Sprint(fields[i+1]), 64) // anybody may have written it
		if err != nil {
			return fmt.Errorf("unexpected answer %v of list.lua: %w", fields, err)
		}
		since := core.Instant(int64(min(max(score, 0), math.MaxInt64/2)), time.Microsecond)
		l.Tasks = append(l.Tasks, Task{
			Key: p.key, Queue: p.queue, ID: fmt.Sprint(fields[i]), Place: i/3 + 1, Since: since, State: fmt.Sprint(fields[i+2]),
		})
	}
	return nil
}
