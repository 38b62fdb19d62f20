package asynqmw_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

// byClock is before the first parked task comes back by itself.
const byClock = 15 * time.Second

// before fails the test if more time has passed since start: then tasks were not called, but came back by the clock.
func before(t testing.TB, start time.Time, limit time.Duration) {
	t.Helper()
	if took := time.Since(start); took > limit {
		t.Errorf("it took %v: tasks came back by the clock", took)
	}
}

// parked is a Config as a user has it, but for its shutdown.
func parked(workers int) asynq.Config {
	return asynqmw.Configure(asynq.Config{
		Concurrency: workers, DelayedTaskCheckInterval: 20 * time.Millisecond, ShutdownTimeout: 100 * time.Millisecond, Logger: silent{},
	})
}

// isParked reports whether a task is parked.
func (q *queue) isParked(id string) bool {
	info, err := q.inspector.GetTaskInfo("default", id)
	return err == nil && info.State == asynq.TaskStateRetry && strings.HasPrefix(info.LastErr, "asynqmw: parked (")
}

func (q *queue) awaitParked(ids ...string) {
	q.t.Helper()
	for _, id := range ids {
		eventually(q.t, func() bool { return q.isParked(id) })
	}
}

// awaitDone waits until tasks are completed, and checks that none has spent a retry.
func (q *queue) awaitDone(ids ...string) {
	q.t.Helper()
	for _, id := range ids {
		if info := q.await(id, asynq.TaskStateCompleted); info.Retried != 0 {
			q.t.Errorf("task %s has spent %d retries", id, info.Retried)
		}
	}
}

// nothingParked checks that no list is left.
func nothingParked(t testing.TB, rdb *redis.Client) {
	t.Helper()
	eventually(t, func() bool {
		n, err := rdb.Exists(context.Background(), "asynq:{default}:lockmw:locks").Result()
		return err == nil && n == 0
	})
}

// attempts counts how often tasks were tried.
type attempts struct{ all, busy atomic.Int64 }

func (a *attempts) count(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := next.ProcessTask(ctx, task)
		a.all.Add(1)
		if asynqmw.IsBusy(err) {
			a.busy.Add(1)
		}
		return err
	})
}

func TestTasksOfABusyKeyFollowOneAnother(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
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
		start := time.Now()
		resume(2)
		q.awaitDone(ids...)
		before(t, start, byClock)
		if n := tried.busy.Load(); n > 4*tasks {
			t.Errorf("%d attempts found the lock busy, for %d tasks", n, tasks)
		}
		nothingParked(t, rdb)
	})
}

func TestAParkedTaskIsCalledWhenAnotherHolderReleasesItsLock(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		q, locks := newQueue(t, queueOn(s)), usertest.Client(t, s)
		_, hold, err := usertest.Client(t, s).Lock(t.Context(), "item:7")
		if err != nil {
			t.Fatal(err)
		}
		startServer(t, queueOn(s), parked(4), asynqmw.WithLock(locks, byItem)(handle(func(context.Context) error { return nil })))
		first, second := q.fulfil("7"), q.fulfil("7")
		q.awaitParked(first, second)
		start := time.Now()
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
		q.awaitDone(first, second)
		before(t, start, byClock/2)
		nothingParked(t, s.NewClient(t))
	})
}

func TestParkedTasksLeaveTheWorkersToOthers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		q, locks := newQueue(t, queueOn(s)), usertest.Client(t, s)
		_, hold, err := usertest.Client(t, s).Lock(t.Context(), "item:busy")
		if err != nil {
			t.Fatal(err)
		}
		resume := q.pause()
		var busy, others []string
		for range 20 {
			busy = append(busy, q.fulfil("busy"))
		}
		for i := range 20 {
			others = append(others, q.fulfil("other"+strconv.Itoa(i)))
		}
		startServer(t, queueOn(s), parked(2), asynqmw.WithLock(locks, byItem)(handle(func(context.Context) error { return nil })))
		resume(1)
		q.awaitDone(others...)
		for _, id := range busy[:19] { // one may wait in a worker
			if info, err := q.inspector.GetTaskInfo("default", id); err != nil || info.State == asynq.TaskStateCompleted {
				t.Errorf("%v %v", info, err)
			}
		}
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
		q.awaitDone(busy...)
	})
}

// While there is always somebody who waits for a lock, nobody sees it free.
func TestAParkedTaskGetsItsTurnAmongSteadyWaiters(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		q := newQueue(t, queueOn(s))
		requests := fairlock.New(usertest.Client(t, s))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2)
		_, hold, err := requests.Lock(ctx, "item:7")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			go func() {
				defer func() { ended <- struct{}{} }()
				for ctx.Err() == nil {
					if _, hold, err := requests.Lock(ctx, "item:7"); err == nil {
						time.Sleep(time.Millisecond) // the work
						_ = hold.Unlock()
					}
				}
			}()
		}
		locks := fairlock.New(usertest.Client(t, s))
		startServer(t, queueOn(s), parked(2), asynqmw.WithLock(locks, byItem)(handle(func(context.Context) error { return nil })))
		ids := []string{q.fulfil("7"), q.fulfil("7")}
		q.awaitParked(ids[0])
		start := time.Now()
		if err := hold.Unlock(); err != nil {
			t.Fatal(err)
		}
		q.awaitDone(ids...)
		before(t, start, byClock)
		cancel()
		receive(t, ended)
		receive(t, ended)
	})
}

// A blockade is a handler that says which task has come, and lets it go when it is told to.
type blockade struct {
	come  chan string
	doors sync.Map // for each item a channel
}

func newBlockade() *blockade { return &blockade{come: make(chan string, 10)} }

func (b *blockade) door(item string) chan struct{} {
	door, _ := b.doors.LoadOrStore(item, make(chan struct{}))
	return door.(chan struct{})
}

func (b *blockade) ProcessTask(ctx context.Context, task *asynq.Task) error {
	e, err := begin(ctx, task)
	if err != nil {
		return err
	}
	b.come <- e.Item
	<-b.door(e.Item)
	return nil
}

// comes waits for tasks of items, in any order.
func (b *blockade) comes(t *testing.T, items ...string) {
	t.Helper()
	var got []string
	for range items {
		got = append(got, receive(t, b.come))
	}
	slices.Sort(got)
	if !slices.Equal(got, items) {
		t.Fatalf("%v have come, want %v", got, items)
	}
}

func (b *blockade) letGo(items ...string) {
	for _, item := range items {
		close(b.door(item))
	}
}

func TestTheNextTaskIsCalledBeforeOthersThatWait(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q, b := newQueue(t, queueOn(s)), newBlockade()
	resume := q.pause()
	first, second := q.fulfil("7"), q.fulfil("7")
	others := []string{q.fulfil("other1"), q.fulfil("other2")}
	startServer(t, queueOn(s), parked(2), asynqmw.WithLock(usertest.Client(t, s), byItem)(b))
	resume(1)
	b.comes(t, "7", "other1")
	eventually(t, func() bool { return q.isParked(first) || q.isParked(second) }) // whoever came second
	b.letGo("7")
	b.comes(t, "7")
	q.awaitDone(first, second)
	b.letGo("other1", "other2")
	q.awaitDone(others...)
}

func TestParkedReadersReadTogetherAlsoBesideOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q, rw, b := newQueue(t, queueOn(s)), rwlock.New(usertest.Client(t, s)), newBlockade()
	_, writer, err := rwlock.New(usertest.Client(t, s)).Lock(t.Context(), "item:7")
	if err != nil {
		t.Fatal(err)
	}
	resume := q.pause()
	readers := []string{q.fulfil("7"), q.fulfil("7")}
	others := []string{q.fulfil("other1"), q.fulfil("other2"), q.fulfil("other3")}
	startServer(t, queueOn(s), parked(2), asynqmw.WithLock(rw.RLocker(), byItem)(b))
	resume(1)
	b.comes(t, "other1", "other2")
	q.awaitParked(readers...)
	if err := writer.Unlock(); err != nil {
		t.Fatal(err)
	}
	called := func(n int) bool {
		for _, id := range readers {
			if !q.isParked(id) {
				n--
			}
		}
		return n == 0
	}
	eventually(t, func() bool { return called(1) })
	b.letGo("other1")
	b.comes(t, "7")
	eventually(t, func() bool { return called(2) })
	b.letGo("other2")
	b.comes(t, "7")
	b.letGo("7", "other3")
	q.awaitDone(append(readers, others...)...)
}

func TestParkedReadersReadTogether(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		q, rw := newQueue(t, queueOn(s)), rwlock.New(usertest.Client(t, s))
		_, writer, err := rwlock.New(usertest.Client(t, s)).Lock(t.Context(), "item:7")
		if err != nil {
			t.Fatal(err)
		}
		inside, together := make(chan struct{}, 3), make(chan struct{})
		startServer(t, queueOn(s), parked(4), asynqmw.WithLock(rw.RLocker(), byItem)(handle(func(context.Context) error {
			inside <- struct{}{}
			<-together
			return nil
		})))
		ids := []string{q.fulfil("7"), q.fulfil("7"), q.fulfil("7")}
		q.awaitParked(ids...)
		if err := writer.Unlock(); err != nil {
			t.Fatal(err)
		}
		for range ids {
			receive(t, inside)
		}
		close(together)
		q.awaitDone(ids...)
	})
}

func TestAServerThatKnowsNothingOfTheListServesIt(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q := newQueue(t, queueOn(s))
	_, hold, err := usertest.Client(t, s).Lock(t.Context(), "item:7")
	if err != nil {
		t.Fatal(err)
	}
	locks := usertest.Client(t, s)
	h := handle(func(context.Context) error { return nil })
	shutdown := startServer(t, queueOn(s), parked(2), asynqmw.WithLock(locks, byItem)(h))
	first := q.fulfil("7")
	q.awaitParked(first)
	shutdown()
	if err := errors.Join(locks.Close(), hold.Unlock()); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	startServer(t, queueOn(s), parked(2), asynqmw.WithLock(usertest.Client(t, s), byItem)(h))
	q.awaitDone(q.fulfil("other"), first)
	before(t, start, byClock/2)
}

func TestATaskThatWasCalledDoesNotCountAsPutBack(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q, others := newQueue(t, queueOn(s)), usertest.Client(t, s)
	if _, _, err := others.Lock(t.Context(), "item:7"); err != nil {
		t.Fatal(err)
	}
	var tried attempts
	startServer(t, queueOn(s), parked(1), tried.count(asynqmw.WithLock(usertest.Client(t, s), byItem, asynqmw.WithMaxRequeues(2))(never(t))))
	id := q.fulfil("7")
	eventually(t, func() bool { return tried.busy.Load() >= 3 }) // it is called now and then, as the lock is held for long
	for want := range 2 {
		if info := q.runAgain(id); info.Retried != want {
			t.Errorf("when it came back uncalled %d times it had spent %d retries: %s", want+1, info.Retried, info.LastErr)
		}
	}
}

// runAgain runs a parked task as if it had come back by the clock, and returns what became of it.
func (q *queue) runAgain(id string) *asynq.TaskInfo {
	q.t.Helper()
	before := ""
	eventually(q.t, func() bool {
		info, err := q.inspector.GetTaskInfo("default", id)
		if err != nil || info.State != asynq.TaskStateRetry {
			return false // it was called
		}
		before = info.LastErr
		return q.inspector.RunTask("default", id) == nil
	})
	var info *asynq.TaskInfo
	eventually(q.t, func() bool {
		info = q.await(id, asynq.TaskStateRetry)
		return info.LastErr != before
	})
	return info
}

// By the clock it is what it was before.
func TestTasksAreNotParkedWithADelayOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q, others := newQueue(t, queueOn(s)), usertest.Client(t, s)
	_, hold, err := others.Lock(t.Context(), "item:7")
	if err != nil {
		t.Fatal(err)
	}
	startServer(t, queueOn(s), quick(), asynqmw.WithLock(usertest.Client(t, s), byItem, atOnce)(handle(func(context.Context) error { return nil })))
	id := q.fulfil("7")
	if info := q.await(id, asynq.TaskStateRetry); !strings.HasPrefix(info.LastErr, "asynqmw: queued again:") {
		t.Errorf("its last error is %q", info.LastErr)
	}
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	q.awaitDone(id)
	nothingParked(t, s.NewClient(t))
}

func TestACopyOfARescuedTaskIsCalled(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q, others := newQueue(t, queueOn(s)), usertest.Client(t, s)
	_, hold, err := others.Lock(t.Context(), "item:7")
	if err != nil {
		t.Fatal(err)
	}
	rdb := s.NewClient(t)
	startServer(t, queueOn(s), parked(1), asynqmw.WithLock(usertest.Client(t, s), byItem,
		asynqmw.WithRescue(q.client, asynq.Retention(time.Hour), asynq.ProcessIn(time.Hour)))(handle(func(context.Context) error { return nil })))
	id := q.fulfil("7", asynq.MaxRetry(0))
	q.awaitCopy(id, 1, asynq.TaskStateScheduled)
	eventually(t, func() bool { return rdb.Exists(t.Context(), "asynq:{default}:lockmw:locks").Val() == 1 })
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		done, err := q.inspector.ListCompletedTasks("default")
		return err == nil && len(done) == 1 && strings.HasPrefix(done[0].ID, id+"~")
	})
}

// The commands are those that docs/operations.md names.
func TestTheRightsThatParkingNeeds(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	admin, q := s.NewClient(t), newQueue(t, queueOn(s))
	user := strings.Fields("ACL SETUSER locks reset on >secret ~lockmw:* &lockmw:inbox:* +evalsha +eval +subscribe +publish +ping " +
		"+time +exists +del +pexpire +pttl +get +set +hset +hget +hmget +hgetall +hdel +hlen +hscan +zadd +zrem +zcard +zscore +zrank +zrange +zrangebyscore +zcount +info")
	parks := strings.Fields("~asynq:* +llen +rpush +sadd +srem +srandmember")
	for _, args := range [][]string{user, append([]string{"ACL", "SETUSER", "locks"}, parks...)} {
		if err := admin.Do(t.Context(), asAny(args)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	rdb := s.NewClient(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "locks", "secret", true })
	_, hold, err := usertest.Client(t, s).Lock(t.Context(), "item:7")
	if err != nil {
		t.Fatal(err)
	}
	startServer(t, queueOn(s), parked(2), asynqmw.WithLock(usertest.ClientOf(t, rdb), byItem)(handle(func(context.Context) error { return nil })))
	ids := []string{q.fulfil("7"), q.fulfil("7")}
	q.awaitParked(ids...)
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	q.awaitDone(ids...)
	nothingParked(t, admin)
	if denied := admin.Do(t.Context(), "ACL", "LOG").Val(); len(denied.([]any)) > 0 {
		t.Errorf("denied: %v", denied)
	}
}

func asAny(words []string) (all []any) {
	for _, w := range words {
		all = append(all, w)
	}
	return all
}

// The queue may be in another Redis than the locks, or the locks' user may have no right to see it.
func TestTasksThatCannotBeParkedComeBackByTheClock(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, s *redistest.Server) (locks *redistest.Server, use func(*redis.Options)){
		"another Redis": func(t *testing.T, _ *redistest.Server) (*redistest.Server, func(*redis.Options)) {
			return redistest.Mini(t), func(*redis.Options) {}
		},
		"no right": func(t *testing.T, s *redistest.Server) (*redistest.Server, func(*redis.Options)) {
			err := s.NewClient(t).Do(t.Context(), "ACL", "SETUSER", "locks", "on", ">secret", "~lockmw:*", "&lockmw:*", "+@all").Err()
			if err != nil {
				t.Fatal(err)
			}
			return s, func(o *redis.Options) { o.Username, o.Password = "locks", "secret" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Redis(t)
			q, log := newQueue(t, queueOn(s)), &logBook{}
			where, use := prepare(t, s)
			opts := &redis.Options{Addr: where.Addr()}
			use(opts)
			rdb := redis.NewClient(opts)
			t.Cleanup(func() { _ = rdb.Close() })
			_, hold, err := usertest.Client(t, where).Lock(t.Context(), "item:7")
			if err != nil {
				t.Fatal(err)
			}
			locks := usertest.ClientOf(t, rdb, lockmw.WithLogger(log.logger()))
			startServer(t, queueOn(s), parked(2), asynqmw.WithLock(locks, byItem)(handle(func(context.Context) error { return nil })))
			ids := []string{q.fulfil("7"), q.fulfil("7")}
			for _, id := range ids {
				if info := q.await(id, asynq.TaskStateRetry); !strings.HasPrefix(info.LastErr, "asynqmw: queued again:") {
					t.Errorf("its last error is %q", info.LastErr)
				}
			}
			if n := strings.Count(log.String(), "cannot be parked"); n != 1 {
				t.Errorf("logged %d times: %s", n, log)
			}
			if err := hold.Unlock(); err != nil {
				t.Fatal(err)
			}
			q.awaitDone(ids...)
		})
	}
}

// A releasing Locker is one whose lock is released by others right after a call found it busy.
type releasing struct {
	*lockmw.Client

	release func()
}

func (l releasing) Lock(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
	ctx, hold, err := l.Client.Lock(ctx, key, opts...)
	if errors.Is(err, lockmw.ErrBusy) {
		l.release()
	}
	return ctx, hold, err
}

func TestALockThatIsReleasedWhileATaskIsParkedIsNotMissed(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q := newQueue(t, queueOn(s))
	_, hold, err := usertest.Client(t, s).Lock(t.Context(), "item:7")
	if err != nil {
		t.Fatal(err)
	}
	l := releasing{usertest.Client(t, s), sync.OnceFunc(func() {
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
	})}
	var tried attempts
	resume := q.pause()
	id := q.fulfil("7")
	q.fulfil("other") // so that nobody waits in a worker
	startServer(t, queueOn(s), parked(1), tried.count(asynqmw.WithLock(l, byItem)(handle(func(context.Context) error { return nil }))))
	resume(1)
	q.awaitDone(id)
	if n := tried.busy.Load(); n != 0 {
		t.Errorf("%d attempts found the lock busy, want none", n)
	}
}
