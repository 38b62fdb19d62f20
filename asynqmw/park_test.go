package asynqmw_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/fairlock"
	waiting "github.com/lockmw/go/internal/parked"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

func TestTasksOfABusyKeyFollowOneAnother(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		const tasks = 40
		q, rdb := newQueue(t, queueOn(s)), s.NewClient(t)
		var tried attempts
		var inside atomic.Int32
		h := handle(func(context.Context) error {
			if inside.Add(1) != 1 {
				t.Error("two tasks of one key run at the same time")
			}
			time.Sleep(2 * time.Millisecond) // the work
			inside.Add(-1)
			return nil
		})
		resume := q.pause()
		var ids []string
		for range tasks {
			ids = append(ids, q.fulfil("7"))
		}
		for range 2 {
			startServer(t, queueOn(s), parked(4), tried.count(asynqmw.WithLock(usertest.Client(t, s), byItem)(h)))
		}
		resume(2)
		q.awaitDone(ids...)
		if n := tried.busy.Load(); n > 4*tasks {
			t.Errorf("%d attempts found the lock busy, for %d tasks", n, tasks)
		}
		nothingParked(t, rdb)
	})
}

func TestAParkedTaskIsWokenWhenAnotherHolderReleasesItsLock(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		q, locks := newQueue(t, queueOn(s)), usertest.Client(t, s)
		release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
		startServer(t, queueOn(s), parked(4), asynqmw.WithLock(locks, byItem)(handle(func(context.Context) error { return nil })))
		first, second := q.fulfil("7"), q.fulfil("7")
		q.awaitParked(first, second)
		release()
		q.awaitDone(first, second)
		nothingParked(t, s.NewClient(t))
	})
}

// While calls always wait for a lock, no check finds it free.
func TestAParkedTaskGetsItsTurnAmongSteadyWaiters(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		q := newQueue(t, queueOn(s))
		release := occupySteadily(t, fairlock.New(usertest.Client(t, s)), "item:7", time.Millisecond)
		locks := fairlock.New(usertest.Client(t, s))
		startServer(t, queueOn(s), parked(2), asynqmw.WithLock(locks, byItem)(handle(func(context.Context) error { return nil })))
		ids := []string{q.fulfil("7"), q.fulfil("7")}
		q.awaitParked(ids[0])
		release()
		q.awaitDone(ids...)
	})
}

// A task stays in its worker for a moment while its lock is busy. That is no limit for a slow server.
func TestATaskWaitsForAServerThatIsSlowerThanItsStay(t *testing.T) {
	for name, staysAtFirst := range map[string]bool{"that was woken": false, "that stays when the lock is busy": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, on asynq.RedisConnOpt) {
				s := on.(pipedRedis).s
				q := newQueue(t, on)
				release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
				var slow atomic.Bool
				rdb := s.NewClient(t)
				rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
					if isLock := isOfLock(cmds); isLock && slow.Load() {
						time.Sleep(2 * asynqmw.LongestStay)
					} else if isLock && staysAtFirst {
						defer slow.Store(true)
					}
					return send()
				}))
				workers := 1
				if staysAtFirst {
					workers = 2
				}
				startServer(t, on, parked(workers), asynqmw.WithLock(usertest.ClientOf(t, rdb), byItem)(handle(func(context.Context) error { return nil })))
				id := q.fulfil("7")
				q.awaitParked(id)
				slow.Store(true)
				release()
				q.awaitDone(id)
				if n := q.outages[id]; n > 0 {
					t.Errorf("%d attempts failed because the server was slow", n)
				}
			})
		})
	}
}

// No worker waits for a lock that tasks hold for long, except with a task that was put back.
func TestATaskAmongSteadyWaitersGetsALockThatTasksHoldForLong(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		s := redis.(pipedRedis).s
		q := newQueue(t, redis)
		release := occupySteadily(t, fairlock.New(usertest.Client(t, s)), "item:7", 10*time.Millisecond)
		locks := fairlock.New(usertest.Client(t, s))
		startServer(t, redis, parked(2), asynqmw.WithLock(locks, byItem)(handle(func(context.Context) error {
			time.Sleep(asynqmw.LongHold * 5 / 4) // the work
			return nil
		})))
		ids := []string{q.fulfil("7"), q.fulfil("7"), q.fulfil("7")}
		q.awaitParked(ids...)
		release()
		q.awaitDone(ids...)
	})
}

// occupySteadily is usertest.Occupy for a lock that two requests take in turn after the release, until the test ends. Each holds it
// for the time work.
func occupySteadily(t *testing.T, l lockmw.Locker, key string, work time.Duration) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var requests sync.WaitGroup
	t.Cleanup(requests.Wait)
	t.Cleanup(cancel)
	release = usertest.Occupy(t, l, key)
	for range 2 {
		requests.Go(func() {
			for ctx.Err() == nil {
				if _, hold, err := l.Lock(ctx, key); err == nil {
					time.Sleep(work)
					_ = hold.Unlock()
				}
			}
		})
	}
	return release
}

func TestTheNextTaskIsWokenBeforeOthersThatWait(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q, b := newQueue(t, queueOn(s)), newBlockade()
	resume := q.pause()
	first, second := q.fulfil("7"), q.fulfil("7")
	others := []string{q.fulfil("other1"), q.fulfil("other2")}
	rdb := s.NewClient(t)
	rdb.AddHook(redistest.Hook(blind)) // a check at the moment of the release would also wake the next task
	var asking atomic.Int32
	rdb.AddHook(redistest.Hook(func(_ context.Context, _ []redis.Cmder, send func() error) error {
		asking.Add(1)
		defer asking.Add(-1)
		return send()
	}))
	startServer(t, queueOn(s), parked(2), asynqmw.WithLock(usertest.ClientOf(t, rdb), byItem)(b))
	resume(1)
	b.comes(t, "7", "other1")
	eventually(t, func() bool { return q.isParked(first) || q.isParked(second) }) // the one that came second
	eventually(t, func() bool { return asking.Load() == 0 })                      // a release does not wait for a wake that is under way
	b.letGo("7")
	b.comes(t, "7")
	q.awaitDone(first, second)
	b.letGo("other1", "other2")
	q.awaitDone(others...)
}

func TestParkedReadersReadTogetherWithOtherReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q, rw, b := newQueue(t, queueOn(s)), rwlock.New(usertest.Client(t, s)), newBlockade()
	release := usertest.Occupy(t, rwlock.New(usertest.Client(t, s)), "item:7")
	resume := q.pause()
	readers := []string{q.fulfil("7"), q.fulfil("7")}
	others := []string{q.fulfil("other1"), q.fulfil("other2"), q.fulfil("other3")}
	startServer(t, queueOn(s), parked(2), asynqmw.WithLock(rw.RLocker(), byItem)(b))
	resume(1)
	b.comes(t, "other1", "other2")
	for _, id := range readers { // one may be woken while the lock is held
		eventually(t, func() bool {
			info, err := q.inspector.GetTaskInfo("default", id)
			return err == nil && strings.HasPrefix(info.LastErr, "asynqmw: parked:") && info.State != asynq.TaskStateActive
		})
	}
	release()
	woken := func(n int) bool {
		for _, id := range readers {
			if !q.isParked(id) {
				n--
			}
		}
		return n <= 0 // if no task comes for a while, the next one is also woken
	}
	eventually(t, func() bool { return woken(1) })
	b.letGo("other1")
	b.comes(t, "7")
	eventually(t, func() bool { return woken(2) })
	b.letGo("other2")
	b.comes(t, "7")
	b.letGo("7", "other3")
	q.awaitDone(append(readers, others...)...)
}

func TestAServerServesAListThatAnotherServerLeft(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q := newQueue(t, queueOn(s))
	release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
	locks := usertest.Client(t, s)
	h := handle(func(context.Context) error { return nil })
	shutdown := startServer(t, queueOn(s), parked(2), asynqmw.WithLock(locks, byItem)(h))
	first := q.fulfil("7")
	q.awaitParked(first)
	shutdown()
	if err := locks.Close(); err != nil {
		t.Fatal(err)
	}
	release()
	startServer(t, queueOn(s), parked(2), asynqmw.WithLock(usertest.Client(t, s), byItem)(h))
	q.awaitDone(q.fulfil("other"), first)
}

// While a lock is held for long, a task is woken now and then. In a bubble no call to Redis is slow; a slow one would put the task
// back, which counts.
func TestATaskThatWasWokenDoesNotCountAsPutBack(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		s := redis.(pipedRedis).s
		q := newQueue(t, redis)
		usertest.Occupy(t, usertest.Client(t, s), "item:7")
		var tried attempts
		startServer(t, redis, parked(1), tried.count(asynqmw.WithLock(usertest.Client(t, s), byItem, asynqmw.WithMaxRequeues(2))(never(t))))
		id := q.fulfil("7")
		eventually(t, func() bool { return tried.busy.Load() >= 3 })
		for want := range 2 {
			if info := q.runAgain(id, &tried); info.Retried != want {
				t.Errorf("after it came back by the clock %d times it had spent %d retries: %s", want+1, info.Retried, info.LastErr)
			}
		}
	})
}

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
		var got []waiting.Task
		eventually(t, func() bool { // a task that is woken, to see whether the lock is free, may be absent for a moment
			got = tasksFor(t, rdb, "item:7")
			return len(got) == 3
		})
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

// asynq adds the delay of a task to the time at which it has received it.
func TestATaskIsWokenThoughItsProcessStoodStill(t *testing.T) {
	inBubble(t, func(t *testing.T, redis asynq.RedisConnOpt) {
		s := redis.(pipedRedis).s
		q, release := newQueue(t, redis), usertest.Occupy(t, usertest.Client(t, s), "item:7")
		cfg := parked(4)
		delay := cfg.RetryDelayFunc
		cfg.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
			d := delay(n, err, task)
			time.Sleep(4 * time.Second)
			return d
		}
		startServer(t, redis, cfg, asynqmw.WithLock(usertest.Client(t, s), byItem)(handle(func(context.Context) error { return nil })))
		id := q.fulfil("7")
		time.Sleep(10 * time.Second)
		q.awaitParked(id)
		release()
		q.awaitDone(id)
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

func TestATaskWithoutAPermitIsParkedAndWoken(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		q := newQueue(t, queueOn(s))
		others := semaphore.New(usertest.Client(t, s), 2)
		_, first := usertest.Lock(t, t.Context(), others, "item:7")
		_, second := usertest.Lock(t, t.Context(), others, "item:7")
		t.Cleanup(func() { _ = second.Unlock() })
		startServer(t, queueOn(s), parked(4), asynqmw.WithLock(semaphore.New(usertest.Client(t, s), 2), byItem)(
			handle(func(context.Context) error { return nil })))
		one, two := q.fulfil("7"), q.fulfil("7")
		q.awaitParked(one, two)
		if err := first.Unlock(); err != nil { // the other permit stays taken, so no check finds the key free
			t.Fatal(err)
		}
		q.awaitDone(one, two)
		nothingParked(t, s.NewClient(t))
	})
}
