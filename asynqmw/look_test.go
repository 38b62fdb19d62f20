package asynqmw_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/asynqmw"
	"github.com/lockmw/go/internal/test/answertext"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// A looker is the client of a server. It counts the server's checks of locks, and can fail.
type looker struct {
	rdb         *redis.Client
	looks, asks atomic.Int32
	dead, blind atomic.Bool
}

func newLooker(t *testing.T, s *redistest.Server) *looker {
	l := &looker{rdb: s.NewClient(t)}
	l.rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		switch {
		case isLook(cmds):
			l.asks.Add(1)
		case len(cmds[0].Args()) > 2 && cmds[0].Name() == "exists": // a check of several locks
			l.looks.Add(1)
			if l.blind.Load() {
				return errors.New("the locks are unreachable")
			}
		}
		if l.dead.Load() {
			return errors.New("the process has died")
		}
		return send()
	}))
	return l
}

// isLook reports whether a server asks for the turn to check locks.
func isLook(cmds []redis.Cmder) bool {
	return slices.ContainsFunc(cmds[0].Args(), func(arg any) bool {
		key, _ := arg.(string)
		return strings.HasSuffix(key, "}:lockmw:looker")
	})
}

// During a quarantine, or without enough replicas, a lock seems to be free and cannot be had. Each task that is woken spends a retry.
func TestFewTasksAreWokenWhileNoLockCanBeHad(t *testing.T) {
	inBubble(t, func(t *testing.T, on asynq.RedisConnOpt) {
		s := on.(pipedRedis).s
		q := newQueue(t, on)
		release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
		var sick atomic.Bool
		rdb := s.NewClient(t)
		rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
			if sick.Load() && isOfLock(cmds) {
				return answertext.Error("MISCONF Redis is configured to save RDB snapshots")
			}
			return send()
		}))
		startServer(t, on, parked(2), asynqmw.WithLock(usertest.ClientOf(t, rdb), byItem)(handle(func(context.Context) error { return nil })))
		var ids []string
		for range 20 {
			ids = append(ids, q.fulfil("7"))
		}
		q.awaitParked(ids...)
		sick.Store(true)
		release()
		time.Sleep(10 * time.Second)
		spent := 0
		for _, id := range ids {
			if info, err := q.inspector.GetTaskInfo("default", id); err == nil {
				spent += info.Retried
			}
		}
		if spent == 0 || spent > 4 {
			t.Errorf("%d tasks have spent a retry in 10 s", spent)
		}
		sick.Store(false)
		for _, id := range ids {
			q.outages[id]++
		}
		q.awaitDone(ids...)
	})
}

// startLookers starts servers in a bubble, one after the other, while the locks of two items are held. The first one parks a task
// for each item and so has the turn. In the end only the last one has workers.
func startLookers(t *testing.T, opt asynq.RedisConnOpt, n int, h asynq.Handler) (all []*looker, release []func()) {
	s := opt.(pipedRedis).s
	q, holder := newQueue(t, opt), usertest.Client(t, s)
	for i := range n {
		l := newLooker(t, s)
		all = append(all, l)
		shutdown := startServer(t, opt, parked(4), asynqmw.WithLock(usertest.Abandoned(t, l.rdb), byItem)(h))
		if i == 0 {
			for item := range 2 {
				release = append(release, usertest.Occupy(t, holder, fmt.Sprint("item:", item)))
				q.awaitParked(q.fulfil(fmt.Sprint(item)))
			}
		}
		q.await(q.fulfil("own"), asynq.TaskStateCompleted) // the server asks for the turn from now on
		<-time.After(3 * time.Second)
		if i < n-1 {
			shutdown() // ends the workers but not the checks
		}
	}
	<-time.After(3 * time.Second)
	for _, l := range all {
		l.looks.Store(0)
		l.asks.Store(0)
	}
	return all, release
}

func TestOneServerChecksTheLocksOfAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		all, release := startLookers(t, opt, 3, handle(func(context.Context) error { return nil }))
		var looks, asks []int32
		<-time.After(time.Minute)
		for _, l := range all {
			looks, asks = append(looks, l.looks.Load()), append(asks, l.asks.Load())
		}
		if looks[0] < 90 || looks[0] > 160 || looks[1]+looks[2] > 0 {
			t.Errorf("in a minute they checked %v times, want 120, 0 and 0", looks)
		}
		if asks[1] > 55 || asks[2] > 55 {
			t.Errorf("in a minute they asked %v times, want 120, 40 and 40", asks)
		}
		for _, f := range release {
			f()
		}
	})
}

// The turn of a dead server ends after parked.TurnTTL, and another server asks within 1.9 s.
func TestAnotherServerTakesOverTheTurnOfADeadOne(t *testing.T) {
	for name, fail := range map[string]func(*looker){
		"died":                     func(l *looker) { l.dead.Store(true) },
		"does not reach the locks": func(l *looker) { l.blind.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
				ran := make(chan time.Time, 10)
				all, release := startLookers(t, opt, 2, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
					if !strings.Contains(string(task.Payload()), "own") {
						ran <- time.Now()
					}
					return nil
				}))
				fail(all[0])
				start := time.Now()
				for _, f := range release {
					f()
				}
				for range 2 {
					if took := receive(t, ran).Sub(start); took > 5*time.Second {
						t.Errorf("a parked task ran %v after the release", took)
					}
				}
			})
		})
	}
}

// A server that has had no lists for a while checks a new one as soon as any other.
func TestTheFirstListIsCheckedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := opt.(pipedRedis).s
		q, ran := newQueue(t, opt), make(chan time.Time, 1)
		startServer(t, opt, parked(1), asynqmw.WithLock(usertest.Client(t, s), byItem)(noteWhen(ran)))
		q.fulfil("own")
		receive(t, ran)
		holder := usertest.Client(t, s)
		for range 10 {
			<-time.After(7 * time.Second)
			release := usertest.Occupy(t, holder, "item:7")
			q.awaitParked(q.fulfil("7"))
			start := time.Now()
			release()
			if took := receive(t, ran).Sub(start); took > 700*time.Millisecond {
				t.Errorf("a parked task ran %v after the release", took)
			}
		}
	})
}

func TestAClosedClientGivesUpItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := opt.(pipedRedis).s
		q, locks, rdb := newQueue(t, opt), usertest.Client(t, s), s.NewClient(t)
		defer usertest.Occupy(t, usertest.Client(t, s), "item:7")()
		startServer(t, opt, parked(4), asynqmw.WithLock(locks, byItem)(never(t)))
		q.awaitParked(q.fulfil("7"))
		<-time.After(3 * time.Second)
		for _, want := range []int64{1, 0} {
			if n := rdb.Exists(t.Context(), "asynq:{default}:lockmw:looker").Val(); n != want {
				t.Errorf("%d servers have the turn, want %d", n, want)
			}
			if err := locks.Close(); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Millisecond)
		}
	})
}

// A task that was on its way when the lock was taken has left its worker by the end of a long hold. A check may coincide with the
// release, so the median counts.
func TestTheNextTaskIsWokenAtTheEndOfALongHold(t *testing.T) {
	inBubble(t, func(t *testing.T, opt asynq.RedisConnOpt) {
		s := opt.(pipedRedis).s
		q, ends, ran := newQueue(t, opt), make(chan time.Time, 10), make(chan time.Time, 10)
		var took []time.Duration
		for range 5 {
			release := usertest.Occupy(t, usertest.Client(t, s), "item:7")
			shutdown := startServer(t, opt, parked(4), asynqmw.WithLock(usertest.Client(t, s), byItem)(handle(func(context.Context) error {
				ran <- time.Now()
				<-time.After(1500 * time.Millisecond)
				ends <- time.Now()
				return nil
			})))
			q.awaitParked(q.fulfil("7"), q.fulfil("7"))
			release()
			receive(t, ran)
			end := receive(t, ends)
			took = append(took, receive(t, ran).Sub(end))
			receive(t, ends)
			shutdown()
		}
		if slices.Sort(took); took[2] > 50*time.Millisecond {
			t.Errorf("the next task began %v after the release", took)
		}
	})
}

// Each Client has keys of its own, and closing one does not end the checks for another.
func TestTwoClientsOnOneConnectionWakeTheirOwnTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, on asynq.RedisConnOpt) {
		s := on.(pipedRedis).s
		q, rdb := newQueue(t, on), s.NewClient(t)
		shop, stock := usertest.ClientOf(t, rdb, lockmw.WithPrefix("shop")), usertest.ClientOf(t, rdb, lockmw.WithPrefix("stock"))
		done := handle(func(context.Context) error { return nil })
		mux := asynq.NewServeMux()
		mux.Handle("order:fulfil", asynqmw.WithLock(shop, byItem)(done))
		mux.Handle("stock:count", asynqmw.WithLock(stock, byItem)(done))
		startServer(t, on, parked(4), mux)
		q.awaitDone(q.fulfil("7"))
		release := usertest.Occupy(t, usertest.Client(t, s, lockmw.WithPrefix("stock")), "item:7")
		id := q.enqueue(taskFor("stock:count", "7"), asynq.Retention(time.Hour))
		q.awaitParked(id)
		if got := rdb.SMembers(t.Context(), "asynq:{default}:lockmw:locks").Val(); !slices.Equal(got, []string{"stock:{item:7}"}) {
			t.Errorf("there are lists of %q, want one of stock:{item:7}", got)
		}
		if err := shop.Close(); err != nil {
			t.Error(err)
		}
		release()
		q.awaitDone(id)
	})
}
