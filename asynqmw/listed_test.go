package asynqmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	waiting "github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
)

// The list of a lock shows which tasks wait for it, in which queue, since when and at which place.
func TestParkedTasksAreFoundByTheirLock(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		q, rdb := newQueue(t, queueOn(s)), s.NewClient(t)
		seven, eight := usertest.Occupy(t, usertest.Client(t, s), "item:7"), usertest.Occupy(t, usertest.Client(t, s), "item:8")
		cfg := parked(4)
		cfg.Queues = map[string]int{"default": 1, "low": 1}
		began := time.Now().Add(-time.Second)
		startServer(t, queueOn(s), cfg, asynqmw.WithLock(usertest.Client(t, s), byItem)(handle(func(context.Context) error { return nil })))
		var ids []string
		for i, task := range []struct{ item, queue string }{{"7", "default"}, {"7", "default"}, {"8", "default"}, {"7", "low"}} {
			ids = append(ids, q.fulfil(task.item, asynq.Queue(task.queue)))
			eventually(t, func() bool { return len(tasksFor(t, rdb, "")) == i+1 })
		}
		got := tasksFor(t, rdb, "item:7")
		if len(got) != 3 {
			t.Fatalf("%+v", got)
		}
		for i, want := range []waiting.Task{{Queue: "default", ID: ids[0], Place: 1}, {Queue: "default", ID: ids[1], Place: 2}, {Queue: "low", ID: ids[3], Place: 1}} {
			if g := got[i]; g.Queue != want.Queue || g.ID != want.ID || g.Place != want.Place || g.Key != "item:7" || g.Since.Before(began) || g.Since.After(time.Now().Add(time.Second)) {
				t.Errorf("%+v, want %+v", g, want)
			}
		}
		seven()
		eight()
		eventually(t, func() bool { return len(tasksFor(t, rdb, "item:7")) == 0 && len(tasksFor(t, rdb, "")) == 0 })
	})
}

// tasksFor returns the tasks that wait for a key; "" for all keys.
func tasksFor(t *testing.T, rdb *redis.Client, key string) (tasks []waiting.Task) {
	t.Helper()
	r := waiting.NewReader(rdb, "lockmw")
	if key != "" {
		list, err := r.Tasks(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return list.Tasks
	}
	for list, err := range r.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, list.Tasks...)
	}
	return tasks
}
