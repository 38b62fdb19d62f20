package asynqmw_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/lockmw"
)

// A journal records in Redis what handlers do, in order. It is also their store, which refuses a write with a fencing token smaller
// than the last one.
type journal struct{ rdb *redis.Client }

// An entry is one line of a journal.
type entry struct {
	Event  string // started, ended, written, refused
	Item   string
	Task   string
	Worker int   // process ID
	Token  int64 // of the hold
	Lost   bool  // the handler's context has ended because the lock was lost
}

func (j journal) note(ctx context.Context, e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return j.rdb.RPush(context.WithoutCancel(ctx), "journal", line).Err()
}

// read returns all entries so far.
func (j journal) read(t testing.TB) []entry {
	t.Helper()
	lines, err := j.rdb.LRange(context.Background(), "journal", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	entries := make([]entry, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	return entries
}

// await returns the n-th entry of an event, counted from 1.
func (j journal) await(t testing.TB, event string, n int) entry {
	t.Helper()
	var found entry
	eventually(t, func() bool {
		seen := 0
		for _, e := range j.read(t) {
			if e.Event == event {
				if seen++; seen == n {
					found = e
					return true
				}
			}
		}
		return false
	})
	return found
}

// begin returns a new entry for a task that is being processed.
func begin(ctx context.Context, task *asynq.Task) (entry, error) {
	var o order
	if err := json.Unmarshal(task.Payload(), &o); err != nil {
		return entry{}, err
	}
	e := entry{Event: "started", Item: o.Item, Worker: os.Getpid()}
	e.Task, _ = asynq.GetTaskID(ctx)
	if hold, ok := lockmw.FromContext(ctx); ok {
		e.Token = hold.Token()
	}
	return e, nil
}

// fulfil is a handler that only writes to the journal.
func (j journal) fulfil(ctx context.Context, task *asynq.Task) error {
	e, err := begin(ctx, task)
	if err != nil {
		return err
	}
	err = j.note(ctx, e)
	e.Event = "ended"
	return errors.Join(err, j.note(ctx, e))
}

// letGo lets the handlers of order:write continue.
func (j journal) letGo(t testing.TB) {
	t.Helper()
	if err := j.rdb.Set(context.Background(), "go", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// write is a handler that ignores the end of its context, waits for letGo, and then writes to the store.
func (j journal) write(ctx context.Context, task *asynq.Task) error {
	e, err := begin(ctx, task)
	if err != nil {
		return err
	}
	if err := j.note(ctx, e); err != nil {
		return err
	}
	for tick := time.Tick(5 * time.Millisecond); ; <-tick {
		if n, err := j.rdb.Exists(context.WithoutCancel(ctx), "go").Result(); err == nil && n == 1 {
			break
		}
	}
	taken, err := storeIt.Run(context.WithoutCancel(ctx), j.rdb, []string{"store:" + e.Item}, e.Token, e.Task).Bool()
	if err != nil {
		return err
	}
	if e.Event = "written"; !taken {
		e.Event = "refused"
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
		e.Lost = errors.Is(context.Cause(ctx), lockmw.ErrLost)
	}
	err = j.note(ctx, e)
	e.Event = "ended"
	return errors.Join(err, j.note(ctx, e))
}

// storeIt writes unless a greater token has written.
//
//	KEYS[1] hash   ARGV[1] token   ARGV[2] value   returns 1 if it has written
var storeIt = redis.NewScript(`
if tonumber(redis.call('HGET', KEYS[1], 'token') or 0) > tonumber(ARGV[1]) then
	return 0
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return 1
`)

// checkApart checks that handlers of one item did not overlap, except handlers of stopped processes, and that later ones had greater
// tokens. It returns the number of handlers that ran.
func checkApart(t testing.TB, entries []entry, stopped ...int) (runs int) {
	t.Helper()
	inside, last := make(map[string]entry), make(map[string]int64)
	for _, e := range entries {
		other, occupied := inside[e.Item]
		switch e.Event {
		case "started":
			runs++
			if occupied && !slices.Contains(stopped, other.Worker) {
				t.Errorf("two handlers of item %s overlap: %+v and %+v", e.Item, other, e)
			}
			if e.Token <= last[e.Item] {
				t.Errorf("token %d of %+v comes after %d", e.Token, e, last[e.Item])
			}
			inside[e.Item], last[e.Item] = e, e.Token
		case "ended":
			if other == (entry{Event: "started", Item: e.Item, Task: e.Task, Worker: e.Worker, Token: e.Token}) {
				delete(inside, e.Item)
			}
		}
	}
	return runs
}
