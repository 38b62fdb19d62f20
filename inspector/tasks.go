package inspector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/transport"
	"github.com/lockmw/go/lockmw"
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

// refusedFor is how long a taskReader does not read tasks after the server has refused it.
const refusedFor = time.Minute

// A taskReader reads waiting tasks. If the Redis user may read only locks, or the server refuses the script, it returns none.
type taskReader struct {
	reader  *parked.Reader
	refused atomic.Pointer[time.Time]
}

func (r *taskReader) read(ctx context.Context, key string) (parked.List, error) {
	if at := r.refused.Load(); at != nil && time.Since(*at) < refusedFor {
		return parked.List{}, nil
	}
	list, err := r.reader.Tasks(ctx, key)
	if transport.IsReply(err) && !transport.IsTemporary(err) && !errors.Is(transport.Failure(err), lockmw.ErrWrongType) {
		now := time.Now()
		r.refused.Store(&now)
		return parked.List{}, nil
	}
	return list, err
}
