package asynqmw_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// Tasks come back by the clock.
func TestTasksWithARequeueDelayAreNotParked(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q := newQueue(t, queueOn(s))
	release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
	startServer(t, queueOn(s), quick(), asynqmw.WithLock(usertest.Client(t, s), byItem, nextTick)(handle(func(context.Context) error { return nil })))
	id := q.fulfil("7")
	if info := q.await(id, asynq.TaskStateRetry); !strings.HasPrefix(info.LastErr, "asynqmw: queued again:") {
		t.Errorf("its last error is %q", info.LastErr)
	}
	release()
	q.awaitDone(id)
	nothingParked(t, s.NewClient(t))
}

// docs/operations.md names the commands.
func TestTheRightsThatParkingNeeds(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	admin, q := s.NewClient(t), newQueue(t, queueOn(s))
	q.needsArchive()
	user := strings.Fields("reset on >secret ~lockmw:* &lockmw:inbox:* +evalsha +eval +subscribe +publish +ping " +
		"+time +exists +del +pexpire +pttl +get +set +hset +hget +hmget +hgetall +hdel +hlen +hscan +zadd +zrem +zcard +zscore +zrank +zrange +zrangebyscore +zcount +info")
	parks := strings.Fields("~asynq:* +llen +rpush +sadd +srem +srandmember +decr")
	if err := redistest.SetUser(t.Context(), admin, "locks", append(user, parks...)...); err != nil {
		t.Fatal(err)
	}
	rdb := s.NewClient(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "locks", "secret", true })
	release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
	rescue := asynqmw.WithRescue(q.client)
	startServer(t, queueOn(s), parked(2), asynqmw.WithLock(usertest.ClientOf(t, rdb), byItem, rescue)(handle(func(context.Context) error { return nil })))
	ids := []string{q.fulfil("7"), q.fulfil("7"), q.fulfil("7", asynq.MaxRetry(0))}
	q.awaitParked(ids...)
	release()
	q.awaitDone(ids...)
	nothingParked(t, admin)
	if info, err := q.inspector.GetQueueInfo("default"); err != nil || info.Failed > 0 {
		t.Errorf("%+v %v", info, err)
	}
	if denied := admin.Do(t.Context(), "ACL", "LOG").Val(); len(denied.([]any)) > 0 {
		t.Errorf("denied: %v", denied)
	}
}

// The queue may be in a Redis other than the locks', the user of the locks may have no right to read it, or the version of asynq may
// be unknown. Then asynqmw uses only asynq's public interface: tasks are retried after a delay, and a last attempt continues as a
// copy.
func TestTasksThatCannotBeParkedComeBackByTheClock(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, s *redistest.Server) *redis.Client // for the locks; nil: the Redis of the queues
		layout  error
		real    bool // miniredis cannot simulate this
		says    string
	}{
		"another Redis": {
			prepare: func(t *testing.T, _ *redistest.Server) *redis.Client { return redistest.Mini(t).NewClient(t) },
			says:    "the task is not in the Redis of the queues, in the keys of asynq v0.26",
		},
		"no right": {real: true, says: "NOPERM", prepare: func(t *testing.T, s *redistest.Server) *redis.Client {
			if err := redistest.SetUser(t.Context(), s.NewClient(t), "locks", "on", ">secret", "~lockmw:*", "&lockmw:*", "+@all"); err != nil {
				t.Fatal(err)
			}
			return s.NewClient(t, func(o *redis.Options) { o.Username, o.Password = "locks", "secret" })
		}},
		"an unknown asynq": {layout: errors.New("asynq is v0.27.0"), says: "asynq is v0.27.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Each(t, func(t *testing.T, s *redistest.Server) {
				if tt.real && strings.HasSuffix(t.Name(), "/miniredis") {
					t.Skip("it has no ACL")
				}
				q, log, rdb := newQueue(t, queueOn(s)), &usertest.Output{}, s.NewClient(t)
				if tt.prepare != nil {
					rdb = tt.prepare(t, s)
				}
				locks := usertest.ClientOf(t, rdb, lockmw.WithLogger(log.Logger()))
				_, hold := usertest.Lock(t, t.Context(), locks, "item:7")
				var ran atomic.Int32
				h := handle(func(context.Context) error { ran.Add(1); return nil })
				mux, unknown := asynq.NewServeMux(), asynqmw.WithLayoutError(tt.layout)
				rescue := asynqmw.WithRescue(q.client, asynq.ProcessIn(time.Hour)) // nothing but the test may run the copy
				for _, typename := range []string{"order:fulfil", "order:ship"} {
					mux.Handle(typename, asynqmw.WithLock(locks, byItem, unknown, rescue)(h))
				}
				startServer(t, queueOn(s), quick(), mux)
				ids := []string{q.fulfil("7"), q.enqueue(taskFor("order:ship", "7"), asynq.Retention(time.Hour))}
				for _, id := range ids {
					if info := q.await(id, asynq.TaskStateRetry); !strings.HasPrefix(info.LastErr, "asynqmw: queued again:") || time.Until(info.NextProcessAt) > 15*time.Second {
						t.Errorf("due at %v, its last error is %q", info.NextProcessAt, info.LastErr)
					}
				}
				last := q.fulfil("7", asynq.MaxRetry(0))
				q.awaitCopy(last, 1, asynq.TaskStateScheduled)
				if text := log.String(); strings.Count(text, "come back after a delay") != 1 || !strings.Contains(text, tt.says) {
					t.Errorf("logged: %s", text)
				}
				nothingParked(t, s.NewClient(t))
				usertest.Unlock(t, hold)
				eventually(t, func() bool {
					_, _ = q.inspector.RunAllRetryTasks("default") // immediately, not by the clock
					_, _ = q.inspector.RunAllScheduledTasks("default")
					return ran.Load() >= 3
				})
				if n := ran.Load(); n != 3 {
					t.Errorf("%d tasks ran, want 3", n)
				}
				q.awaitDone(ids...)
			})
		})
	}
}

// A releasing Locker releases the lock of another holder right after a call has found it busy.
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
	l := releasing{usertest.Client(t, s), usertest.Occupy(t, usertest.Client(t, s), "item:7")}
	var tried attempts
	resume := q.pause()
	id := q.fulfil("7")
	q.fulfil("other") // needs the worker, so that no task waits in it
	startServer(t, queueOn(s), parked(1), tried.count(asynqmw.WithLock(l, byItem)(handle(func(context.Context) error { return nil }))))
	resume(1)
	q.awaitDone(id)
	if n := tried.busy.Load(); n != 0 {
		t.Errorf("%d attempts found the lock busy, want none", n)
	}
}

// Dragonfly refuses undeclared keys by default. An operator may have allowed them for the scripts of asynq only, by their hashes. A
// park uses none if no other task waits, so the first refusal is that of a wake.
func TestTasksRunOnAServerThatRefusesUndeclaredKeys(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		q, log, rdb := newQueue(t, queueOn(s)), &usertest.Output{}, s.NewClient(t)
		redistest.RefuseUndeclaredKeys(rdb)
		// The embedded server checks each script slowly: next to other tests, it may not answer within 2 s.
		locks := usertest.ClientOf(t, rdb, lockmw.WithLogger(log.Logger()), lockmw.WithUnlockTimeout(time.Minute))
		_, hold := usertest.Lock(t, t.Context(), locks, "item:7")
		var ran atomic.Int32
		h := handle(func(context.Context) error { ran.Add(1); return nil })
		startServer(t, queueOn(s), quick(), asynqmw.WithLock(locks, byItem)(h))
		ids := []string{q.fulfil("7")}
		q.awaitParked(ids...)
		usertest.Unlock(t, hold)
		eventually(t, func() bool { return strings.Contains(log.String(), "come back after a delay") })

		_, hold = usertest.Lock(t, t.Context(), locks, "item:7")
		late := []string{q.fulfil("7"), q.fulfil("7")}
		for _, id := range late {
			if info := q.await(id, asynq.TaskStateRetry); !strings.HasPrefix(info.LastErr, "asynqmw: queued again:") {
				t.Errorf("its last error is %q", info.LastErr)
			}
		}
		usertest.Unlock(t, hold)
		ids = append(ids, late...)
		eventually(t, func() bool {
			_, _ = q.inspector.RunAllRetryTasks("default") // immediately, not by the clock
			return int(ran.Load()) == len(ids)
		})
		q.awaitDone(ids...)
		text := log.String()
		for _, want := range []string{"come back after a delay", "allow undeclared keys on the server", "script tried accessing undeclared key"} {
			if strings.Count(text, want) != 1 {
				t.Errorf("%q is not in the log once: %s", want, text)
			}
		}
	})
}
