package inspector

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/parked"
)

// A task is an asynq task that waits for a lock.
type task struct {
	Queue  string    `json:"queue"`
	ID     string    `json:"id"`
	Place  int       `json:"place"`
	Since  time.Time `json:"since"`
	Waited millis    `json:"waited_ms"`
	State  string    `json:"state"` // parked, woken or waiting
}

// addTasks adds waiting tasks to the lock.
func (l *lock) addTasks(list parked.List) {
	now := time.Now()
	for _, t := range list.Tasks {
		l.Tasks = append(l.Tasks, task{t.Queue, t.ID, t.Place, t.Since.UTC(), millisOf(now.Sub(t.Since)), t.State})
	}
	l.MoreTasks = list.More
}

// refusedFor is how long a taskReader does not read tasks after the server has denied it.
const refusedFor = time.Minute

// A taskReader reads waiting tasks. If the Redis user may read only locks, it returns none.
type taskReader struct {
	reader *parked.Reader

	mu      sync.Mutex
	refused time.Time
}

func (r *taskReader) read(ctx context.Context, key string) (parked.List, error) {
	r.mu.Lock()
	off := !r.refused.IsZero() && time.Since(r.refused) < refusedFor
	r.mu.Unlock()
	if off {
		return parked.List{}, nil
	}
	list, err := r.reader.Tasks(ctx, key)
	if _, refused := errors.AsType[redis.Error](err); refused {
		r.mu.Lock()
		r.refused = time.Now()
		r.mu.Unlock()
		return parked.List{}, nil
	}
	return list, err
}
