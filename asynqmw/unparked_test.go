package asynqmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// By the clock it is what it was before.
func TestTasksAreNotParkedWithADelayOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	q := newQueue(t, queueOn(s))
	release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
	startServer(t, queueOn(s), quick(), asynqmw.WithLock(usertest.Client(t, s), byItem, atOnce)(handle(func(context.Context) error { return nil })))
	id := q.fulfil("7")
	if info := q.await(id, asynq.TaskStateRetry); !strings.HasPrefix(info.LastErr, "asynqmw: queued again:") {
		t.Errorf("its last error is %q", info.LastErr)
	}
	release()
	q.awaitDone(id)
	nothingParked(t, s.NewClient(t))
}

// The commands are those that docs/operations.md names.
func TestTheRightsThatParkingNeeds(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	admin, q := s.NewClient(t), newQueue(t, queueOn(s))
	user := strings.Fields("ACL SETUSER locks reset on >secret ~lockmw:* &lockmw:inbox:* +evalsha +eval +subscribe +publish +ping " +
		"+time +exists +del +pexpire +pttl +get +set +hset +hget +hmget +hgetall +hdel +hlen +hscan +zadd +zrem +zcard +zscore +zrank +zrange +zrangebyscore +zcount +info")
	parks := strings.Fields("~asynq:* +llen +rpush +sadd +srem +srandmember +decr")
	for _, args := range [][]string{user, append([]string{"ACL", "SETUSER", "locks"}, parks...)} {
		if err := admin.Do(t.Context(), asAny(args)...).Err(); err != nil {
			t.Fatal(err)
		}
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
			release := usertest.Occupy(t, usertest.Client(t, where), "item:7")
			locks := usertest.ClientOf(t, rdb, lockmw.WithLogger(log.logger()))
			startServer(t, queueOn(s), quick(), asynqmw.WithLock(locks, byItem)(handle(func(context.Context) error { return nil })))
			ids := []string{q.fulfil("7"), q.fulfil("7")}
			for _, id := range ids {
				if info := q.await(id, asynq.TaskStateRetry); !strings.HasPrefix(info.LastErr, "asynqmw: queued again:") {
					t.Errorf("its last error is %q", info.LastErr)
				}
			}
			if n := strings.Count(log.String(), "cannot be parked"); n != 1 {
				t.Errorf("logged %d times: %s", n, log)
			}
			release()
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
	l := releasing{usertest.Client(t, s), usertest.Occupy(t, usertest.Client(t, s), "item:7")}
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
