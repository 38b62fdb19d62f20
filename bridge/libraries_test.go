package bridge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

func TestNestedCallsAndOnce(t *testing.T) {
	each(t, func(s *scene) {
		ctx, hold := s.lock()
		_, nested, err := s.locks.Lock(ctx, key)
		if err != nil || nested.Token() != hold.Token() {
			s.Fatalf("nested: %v", err)
		}
		usertest.Unlock(s, nested)
		if s.exist(s, s.rdb) == 0 {
			s.Error("the nested Unlock releases the old key")
		}
		usertest.Unlock(s, hold)
		tick := lockmw.Every(time.Hour)
		for _, want := range []bool{true, false} {
			ran, err := lockmw.Once(s.Context(), s.locks, "job", tick, func(context.Context) error { return nil })
			if err != nil || ran != want {
				s.Errorf("Once: %t, %v", ran, err)
			}
		}
	})
}

// A process that ends its Client with a hold leaves neither.
func TestCloseOfTheClient(t *testing.T) {
	each(t, func(s *scene) {
		ctx, hold := s.lock()
		if err := s.client.Close(); err != nil {
			s.Error(err)
		}
		s.locks.Close()
		if !errors.Is(context.Cause(ctx), lockmw.ErrClosed) || !s.isFree() {
			s.Errorf("after Close: %v", context.Cause(ctx))
		}
		_ = hold.Unlock()
	})
}

// One key of three may be lost.
func TestRueidislockNeedsAMajority(t *testing.T) {
	inBubble(t, oldWays()[2], func(s *scene) {
		ctx, hold := s.lock(lockmw.WithLease(3 * time.Second))
		s.rdb.Del(s.Context(), s.keys[1])
		time.Sleep(5 * time.Second)
		if ctx.Err() != nil {
			s.Errorf("lost with two keys of three: %v", context.Cause(ctx))
		}
		s.rdb.Del(s.Context(), s.keys[2])
		time.Sleep(5 * time.Second)
		s.aboutOld(context.Cause(ctx), lockmw.ErrLost)
		_ = hold.Unlock()

		s.rdb.Set(s.Context(), s.keys[2], "old", 0) // a call of the library that is about to give up
		_, hold = s.lock()
		usertest.Unlock(s, hold)
		s.rdb.Set(s.Context(), s.keys[0], "old", 0)
		_, _, err := s.locks.TryLock(s.Context(), key)
		s.aboutOld(err, lockmw.ErrBusy)
		if s.exist(s, s.rdb) != 2 {
			s.Error("a try leaves keys")
		}
		go func() { _, _, _ = s.locks.Lock(s.Context(), key, lockmw.WithWait(time.Minute)) }() // it ends without the lock
		time.Sleep(5 * time.Second)
		synctest.Wait() // the call pauses
		if s.exist(s, s.rdb) != 2 {
			s.Error("a call that pauses keeps keys, and so wakes calls of the library for nothing")
		}
		time.Sleep(time.Minute)
	})
}

// Redisson waits for a message rather than poll.
func TestUnlockWakesRedisson(t *testing.T) {
	inBubble(t, oldWays()[3], func(s *scene) {
		_, hold := s.lock()
		sub := s.rdb.Subscribe(s.Context(), "redisson_lock__channel:{item:7}")
		defer sub.Close()
		if _, err := sub.Receive(s.Context()); err != nil {
			s.Fatal(err)
		}
		usertest.Unlock(s, hold)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != "0" {
			s.Errorf("%v, %v, want the message that wakes Redisson", m, err)
		}
	})
}

func TestConstructorsPanic(t *testing.T) {
	server := redistest.Mini(t)
	rdb := server.NewClient(t)
	c := usertest.ClientOf(t, rdb)
	usertest.WantPanic(t, "bridge: ", "the Locker is nil", func() { bridge.Redsync(nil, rdb) })
	usertest.WantPanic(t, "bridge: ", "the redis client is nil", func() { bridge.Redsync(c, nil) })
	usertest.WantPanic(t, "bridge: ", "keyOf is nil", func() { bridge.SetNX(c, rdb, nil) })
	usertest.WantPanic(t, "lockmw: ", "mode read", func() { bridge.Redsync(rwlock.New(c).RLocker(), rdb) })
	usertest.WantPanic(t, "lockmw: ", "mode permit", func() { bridge.Redsync(semaphore.New(c, 2), rdb) })
	usertest.WantPanic(t, "bridge: ", "not made", func() { (*bridge.Locker)(nil).Close() })
}
