package asynqmw_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
)

// soakLease is longer than shortLease, because all processes are busy.
const soakLease = 5 * time.Second

var soakLength = flag.Duration("soak", 3*time.Second, "how long TestSoak lasts")

// A soak runs worker processes under faults on one Redis that keeps its data.
type soak struct {
	t       *testing.T
	redis   *redistest.Server
	spec    workerSpec
	workers []*redistest.Child
	log     journal
	q       *queue

	stopped map[int]bool // process IDs; their handlers may continue after their locks are lost
	ids     []string
}

const (
	soakItems   = 4
	soakWorkers = 4
)

// TestSoak: go test ./asynqmw -run Soak -v -soak 10m -timeout 15m
//
// Workers are killed and stopped, Redis is killed and restarted, and requests hold the locks of tasks now and then. No
// task is lost, tasks of one item do not overlap, and no keys are left behind.
func TestSoak(t *testing.T) {
	suite.NeedsFull(t, "it takes long")
	t.Parallel()
	s := &soak{t: t, redis: redistest.Redis(t, redistest.Kept...), stopped: make(map[int]bool)}
	store := redistest.Redis(t)
	s.log, s.q = journal{store.NewClient(t)}, newQueue(t, queueOn(s.redis))
	s.spec = workerSpec{Addr: s.redis.Addr(), Journal: store.Addr(), Concurrency: 4, Lease: soakLease, Parks: true}
	for range soakWorkers {
		s.workers = append(s.workers, startWorker(t, s.spec))
	}
	ctx, cancel := context.WithTimeout(t.Context(), *soakLength)
	defer cancel()
	var others sync.WaitGroup
	others.Go(func() { s.enqueue(ctx) })
	others.Go(func() { s.hold(ctx) })
	s.disturb(ctx)
	others.Wait()
	s.drain()
}

// enqueue enqueues tasks, most of them for a busy item.
func (s *soak) enqueue(ctx context.Context) {
	for tick := time.Tick(10 * time.Millisecond); ctx.Err() == nil; <-tick {
		item := strconv.Itoa(rand.IntN(soakItems))
		if rand.IntN(3) == 0 {
			item = "own" + strconv.Itoa(len(s.ids))
		}
		id := "task" + strconv.Itoa(len(s.ids))
		for {
			_, err := s.q.client.Enqueue(taskFor("order:work", item), asynq.TaskID(id), asynq.Retention(time.Hour))
			if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) {
				break // a conflict: the task was enqueued and the answer was lost
			}
		}
		s.ids = append(s.ids, id)
	}
}

// hold takes the locks of items now and then, as requests do.
func (s *soak) hold(ctx context.Context) {
	locks := usertest.Client(s.t, s.redis)
	for n := 1; ctx.Err() == nil; n++ {
		item := strconv.Itoa(rand.IntN(soakItems))
		_, hold, err := locks.Lock(ctx, "item:"+item)
		if err != nil {
			continue
		}
		e := entry{Event: "started", Item: item, Task: "request" + strconv.Itoa(n), Token: hold.Token()}
		if err := s.log.note(ctx, e); err != nil {
			s.t.Error(err)
		}
		<-time.After(rand.N(30 * time.Millisecond)) // the work
		e.Event = "ended"
		if err := s.log.note(ctx, e); err != nil {
			s.t.Error(err)
		}
		_ = hold.Unlock()
		<-time.After(rand.N(50 * time.Millisecond)) // between two requests
	}
}

// disturb lets faults happen, one after the other. Only the first worker is stopped.
func (s *soak) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-time.After(200*time.Millisecond + rand.N(400*time.Millisecond)):
		case <-ctx.Done():
			return
		}
		switch p := rand.IntN(10); {
		case p < 5:
			i := 1 + rand.IntN(soakWorkers-1)
			s.workers[i].Kill()
			s.workers[i] = startWorker(s.t, s.spec)
		case p < 8:
			w := s.workers[0]
			s.stopped[w.PID()] = true
			w.Pause(s.t)
			<-time.After(rand.N(2 * soakLease)) // the time for which it is stopped
			w.Resume(s.t)
		default:
			s.redis.Kill()
			s.redis.Restart(s.t)
		}
	}
}

// drain waits until all tasks are done, and checks what they did.
func (s *soak) drain() {
	for _, w := range s.workers {
		w.End()
	}
	ctx, rdb := context.Background(), s.redis.NewClient(s.t)
	active, err := rdb.ZRange(ctx, "asynq:{default}:lease", 0, -1).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, id := range active { // tasks of workers that were killed
		silentFor(s.t, rdb, id)
	}
	last := startWorker(s.t, s.spec)
	usertest.Eventually(s.t, "the end of all tasks", 3*time.Minute, func() bool {
		info, err := s.q.inspector.GetQueueInfo("default")
		return err == nil && info.Completed == len(s.ids)
	})
	nothingParked(s.t, rdb)
	last.End()
	var left []string
	defer func() {
		if len(left) > 0 {
			s.t.Errorf("left behind: %v", left)
		}
	}()
	eventually(s.t, func() bool {
		left, err = rdb.Keys(ctx, "*lockmw:*").Result()
		left = slices.DeleteFunc(left, func(key string) bool { // docs/operations.md lists the keys that remain for a while
			return key == "lockmw:fence" || strings.Contains(key, ":done:")
		})
		return err == nil && len(left) == 0
	})
	entries := s.log.read(s.t)
	whole := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool {
		return s.stopped[e.Worker] || e.Event == "started" && !hasEnd(entries, e)
	})
	s.t.Logf("%d tasks, %d times an item's lock was held, %d of them to the end", len(s.ids), count(entries, "started"), checkApart(s.t, whole))
}

// hasEnd reports whether the journal has an end for e, whose worker was then not killed.
func hasEnd(entries []entry, e entry) bool {
	e.Event = "ended"
	return slices.Contains(entries, e)
}

func count(entries []entry, event string) (n int) {
	for _, e := range entries {
		if e.Event == event {
			n++
		}
	}
	return n
}

// work is a handler that takes a random time.
func (j journal) work(ctx context.Context, task *asynq.Task) error {
	e, err := begin(ctx, task)
	if err != nil {
		return err
	}
	err = j.note(ctx, e)
	<-time.After(time.Millisecond + rand.N(8*time.Millisecond))
	e.Event = "ended"
	return errors.Join(err, j.note(ctx, e))
}
