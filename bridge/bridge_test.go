package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockmw/go/bridge"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

const key = "item:7"

// A scene is an embedded server in a bubble, with a bridge, a process of the old code and one of lockmw alone.
type scene struct {
	*testing.T
	oldWay
	server *redistest.Server
	client *lockmw.Client  // of the bridge
	locks  *bridge.Locker  // new code that also takes the old key
	after  *lockmw.Client  // new code that does not
	rdb    *redis.Client   // old code
	wire   *redistest.Wire // of the bridge
}

// each runs test for all libraries, in bubbles: minutes pass instantly.
func each(t *testing.T, test func(s *scene)) {
	for _, way := range oldWays() {
		t.Run(way.name, func(t *testing.T) { inBubble(t, way, test) })
	}
}

// unnotified keeps a client from asking the server for notifications of its maintenance.
func unnotified(o *redis.Options) {
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func inBubble(t *testing.T, way oldWay, test func(s *scene)) {
	usertest.InBubble(t, func(t *testing.T, server *redistest.Server) {
		s := &scene{T: t, oldWay: way, server: server, wire: server.NewWire(), rdb: server.NewClient(t, unnotified)}
		rdb := server.NewClient(t, s.wire.Use, unnotified)
		s.client, s.after = usertest.ClientOf(t, rdb), usertest.ClientOf(t, s.rdb)
		s.locks = way.bridge(s.client, rdb)
		t.Cleanup(s.locks.Close)
		test(s)
	})
}

func (s *scene) lock(opts ...lockmw.Option) (context.Context, *lockmw.Hold) {
	s.Helper()
	return usertest.Lock(s, s.Context(), s.locks, key, opts...)
}

// isFree reports whether neither the old key nor the lock of lockmw is taken.
func (s *scene) isFree() bool {
	s.Helper()
	return s.exist(s, s.rdb) == 0 && usertest.IsFree(s.after, key)
}

// aboutOld checks an error that is about the old key.
func (s *scene) aboutOld(err, want error) {
	s.Helper()
	e, ok := errors.AsType[*bridge.OldKeyError](err)
	if !ok || e.Library != s.name || e.Key != s.keys[0] || !errors.Is(err, want) {
		s.Errorf("%v, want %v about the old key", err, want)
	}
}

func TestAHoldExcludesOldCodeAndLockmw(t *testing.T) {
	each(t, func(s *scene) {
		_, hold := s.lock()
		if s.takeAll(s, s.rdb, "old") {
			s.Error("old code takes the lock")
		}
		if usertest.IsFree(s.after, key) {
			s.Error("a Client takes the lock")
		}
		usertest.Unlock(s, hold)
		if !s.isFree() {
			s.Error("something is left after Unlock")
		}
	})
}

func TestATryReportsTheOldKeyAndLeavesNothing(t *testing.T) {
	each(t, func(s *scene) {
		s.takeAll(s, s.rdb, "old")
		_, _, err := s.locks.TryLock(s.Context(), key)
		s.aboutOld(err, lockmw.ErrBusy)
		if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.RetryAfter != time.Second || !strings.Contains(err.Error(), s.name) {
			s.Errorf("%v, want an Error with the library and RetryAfter", err)
		}
		if !usertest.IsFree(s.after, key) {
			s.Error("the lock of lockmw is left")
		}
		s.freeAll(s, s.rdb, "old")
		if !s.isFree() {
			s.Error("the try has changed the old key")
		}
	})
}

func TestATryReportsTheLockOfLockmw(t *testing.T) {
	each(t, func(s *scene) {
		_, hold := usertest.Lock(s, s.Context(), s.after, key)
		_, _, err := s.locks.TryLock(s.Context(), key)
		if _, about := errors.AsType[*bridge.OldKeyError](err); about || !errors.Is(err, lockmw.ErrBusy) {
			s.Errorf("%v, want ErrBusy without an OldKeyError", err)
		}
		if s.exist(s, s.rdb) > 0 {
			s.Error("a call without the lock of lockmw takes the old key")
		}
		usertest.Unlock(s, hold)
	})
}

func TestACallThatGivesUpLeavesNothing(t *testing.T) {
	each(t, func(s *scene) {
		s.takeAll(s, s.rdb, "old")
		_, _, err := s.locks.Lock(s.Context(), key, lockmw.WithWait(time.Second))
		s.aboutOld(err, lockmw.ErrBusy)
		ctx, cancel := context.WithCancelCause(s.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("changed my mind")) })
		_, _, err = s.locks.Lock(ctx, key)
		s.aboutOld(err, context.Canceled)
		synctest.Wait()
		s.freeAll(s, s.rdb, "old")
		if !s.isFree() {
			s.Error("something is left")
		}
	})
}

// The take reaches the server, and its answer comes after the call has given up.
func TestATakeThatIsAnsweredLateIsUndone(t *testing.T) {
	each(t, func(s *scene) {
		_, hold := s.lock() // the server knows the scripts
		usertest.Unlock(s, hold)
		late := s.wire.HoldReply(s.keys[len(s.keys)-1] + "\r\n")
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if _, _, err := s.locks.Lock(ctx, key); len(s.keys) == 1 && !errors.Is(err, lockmw.ErrUnavailable) {
			s.Errorf("%v, want ErrUnavailable", err)
		} else if err == nil {
			return // a majority has answered
		}
		late.Deliver()
		time.Sleep(time.Second)
		if !s.isFree() {
			s.Error("something is left")
		}
	})
}

// However short the wait is: it is unknown whether the old key is taken.
func TestAnOldKeyWithoutAnAnswerIsUnavailable(t *testing.T) {
	each(t, func(s *scene) {
		if len(s.keys) > 1 {
			s.Skip("a majority answers")
		}
		_, hold := s.lock() // the server knows the scripts
		usertest.Unlock(s, hold)
		for _, wait := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
			late := s.wire.HoldReply(s.keys[0] + "\r\n")
			_, _, err := s.locks.Lock(s.Context(), key, lockmw.WithWait(wait))
			if s.aboutOld(err, lockmw.ErrUnavailable); errors.Is(err, lockmw.ErrBusy) {
				s.Errorf("a wait of %v: %v", wait, err)
			}
			late.Deliver()
			time.Sleep(time.Second)
			if !s.isFree() {
				s.Error("something is left")
			}
		}
	})
}

func TestBothAreRenewed(t *testing.T) {
	each(t, func(s *scene) {
		ctx, hold := s.lock(lockmw.WithLease(3 * time.Second))
		for range 20 {
			time.Sleep(time.Second)
			if s.takeAll(s, s.rdb, "old") || usertest.IsFree(s.after, key) || ctx.Err() != nil {
				s.Fatalf("lost: %v", context.Cause(ctx))
			}
			if left := time.Until(hold.Deadline()); left < time.Second || left > 3*time.Second {
				s.Errorf("%v until the deadline", left)
			}
		}
		usertest.Unlock(s, hold)
	})
}

// Another holder has the old keys. Its values are not touched.
func TestTheHoldEndsWhenTheOldKeyIsTakenAway(t *testing.T) {
	each(t, func(s *scene) {
		ctx, hold := s.lock(lockmw.WithLease(9 * time.Second))
		s.rdb.Del(s.Context(), s.keys...)
		s.takeAll(s, s.rdb, "old")
		time.Sleep(4 * time.Second)
		s.aboutOld(context.Cause(ctx), lockmw.ErrLost)
		if usertest.IsFree(s.after, key) {
			s.Error("the lock of lockmw is free while the work may still stop")
		}
		s.aboutOld(hold.Unlock(), lockmw.ErrLost)
		if !usertest.IsFree(s.after, key) || !s.holds(s, s.rdb, "old") {
			s.Error("Unlock leaves the lock, or takes the old key from its holder")
		}
	})
}

func TestALostHoldThatIsNotUnlockedIsFreed(t *testing.T) {
	each(t, func(s *scene) {
		ctx, _ := s.lock(lockmw.WithLease(9 * time.Second))
		s.rdb.Del(s.Context(), s.keys...)
		<-ctx.Done()
		time.Sleep(9 * time.Second)
		if !s.isFree() {
			s.Error("something is left")
		}
	})
}

func TestUnlockReportsThatTheOldKeyHasAnotherHolder(t *testing.T) {
	each(t, func(s *scene) {
		_, hold := s.lock()
		s.rdb.Del(s.Context(), s.keys...)
		s.takeAll(s, s.rdb, "old")
		s.aboutOld(hold.Unlock(), lockmw.ErrLost)
		if !s.holds(s, s.rdb, "old") {
			s.Error("Unlock has deleted the key of another holder")
		}
	})
}

// The next holder takes the old key before Unlock repeats the release.
func TestALostAnswerToTheReleaseIsNoLoss(t *testing.T) {
	each(t, func(s *scene) {
		_, hold := s.lock()
		usertest.Unlock(s, hold) // the server knows the scripts
		_, hold = s.lock()
		for _, key := range s.keys {
			s.wire.LoseReply(key + "\r\n")
		}
		taken := make(chan struct{})
		go func() {
			defer close(taken)
			for !s.takeAll(s, s.rdb, "old") {
				time.Sleep(time.Millisecond)
			}
		}()
		usertest.Unlock(s, hold)
		<-taken
		if !s.holds(s, s.rdb, "old") {
			s.Error("the repetition has deleted the key of the next holder")
		}
	})
}

// A firewall has forgotten a connection of the pool: what is sent over it is never answered.
func TestAConnectionThatSwallowsARenewalLosesNoHold(t *testing.T) {
	each(t, func(s *scene) {
		ctx, hold := s.lock(lockmw.WithLease(4 * time.Second))
		for _, key := range s.keys {
			s.wire.Withhold(key + "\r\n")
		}
		time.Sleep(10 * time.Second)
		if ctx.Err() != nil {
			s.Errorf("the hold has ended: %v", context.Cause(ctx))
		}
		usertest.Unlock(s, hold)
	})
}

func TestTheHoldEndsWhenTheLockOfLockmwIsLost(t *testing.T) {
	each(t, func(s *scene) {
		ctx, hold := s.lock(lockmw.WithLease(9 * time.Second))
		s.rdb.Del(s.Context(), "lockmw:{"+key+"}")
		time.Sleep(4 * time.Second)
		if cause := context.Cause(ctx); !errors.Is(cause, lockmw.ErrLost) {
			s.Errorf("the cause is %v", cause)
		}
		time.Sleep(9 * time.Second)
		if s.exist(s, s.rdb) > 0 {
			s.Error("the old key of a lost hold is renewed")
		}
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			s.Errorf("Unlock: %v", err)
		}
	})
}

func TestTheLockIsTakenAgainIfItIsLostWhileTheCallWaits(t *testing.T) {
	each(t, func(s *scene) {
		s.takeAll(s, s.rdb, "old")
		time.AfterFunc(time.Second, func() { s.rdb.Del(s.Context(), "lockmw:{"+key+"}") })
		time.AfterFunc(6*time.Second, func() { s.freeAll(s, s.rdb, "old") })
		ctx, hold := s.lock(lockmw.WithLease(3 * time.Second))
		if usertest.IsFree(s.after, key) || ctx.Err() != nil {
			s.Error("the call returns without the lock")
		}
		if n := s.locks.OldKeyBusy(); n != 1 {
			s.Errorf("%d calls have found the old key busy, want one", n)
		}
		usertest.Unlock(s, hold)
	})
}

func TestLimitsOfAHoldCountFromTheOldKey(t *testing.T) {
	each(t, func(s *scene) {
		after := func(d time.Duration) { time.AfterFunc(d, func() { s.freeAll(s, s.rdb, "old") }) }
		s.takeAll(s, s.rdb, "old")
		after(5 * time.Second)
		ctx, hold := s.lock(lockmw.WithMaxHold(2*time.Second), lockmw.WithLease(3*time.Second))
		time.Sleep(1900 * time.Millisecond)
		if ctx.Err() != nil {
			s.Errorf("the maximum hold has ended early: %v", context.Cause(ctx))
		}
		time.Sleep(time.Second)
		if !errors.Is(context.Cause(ctx), lockmw.ErrLost) || !s.isFree() {
			s.Errorf("after the maximum hold: %v", context.Cause(ctx))
		}
		_ = hold.Unlock()

		s.takeAll(s, s.rdb, "old")
		after(4 * time.Second)
		ctx, hold = s.lock(lockmw.WithFixedLease(5 * time.Second))
		time.Sleep(4 * time.Second)
		if ctx.Err() != nil {
			s.Errorf("the fixed lease has ended early: %v", context.Cause(ctx))
		}
		if err := hold.Extend(s.Context(), 5*time.Second); err != nil {
			s.Error(err)
		}
		time.Sleep(4 * time.Second)
		if ctx.Err() != nil || s.exist(s, s.rdb) != len(s.keys) {
			s.Errorf("Extend has not extended both: %v", context.Cause(ctx))
		}
		time.Sleep(2 * time.Second)
		if !errors.Is(context.Cause(ctx), lockmw.ErrLost) || !s.isFree() {
			s.Errorf("after the fixed lease: %v", context.Cause(ctx))
		}
		_ = hold.Unlock()
	})
}

func TestAMinimumHoldKeepsBoth(t *testing.T) {
	each(t, func(s *scene) {
		_, hold := s.lock(lockmw.WithMinHold(5 * time.Second))
		usertest.Unlock(s, hold)
		time.Sleep(4 * time.Second)
		if s.exist(s, s.rdb) == 0 || usertest.IsFree(s.after, key) {
			s.Error("the minimum hold has ended early")
		}
		time.Sleep(2 * time.Second)
		if !s.isFree() {
			s.Error("the minimum hold has not ended")
		}
	})
}

func TestAnOldKeyOfAnotherTypeIsNotTouched(t *testing.T) {
	each(t, func(s *scene) {
		for _, key := range s.keys {
			s.rdb.SAdd(s.Context(), key, "x")
		}
		_, _, err := s.locks.Lock(s.Context(), key)
		s.aboutOld(err, lockmw.ErrWrongType)
		if s.rdb.Type(s.Context(), s.keys[0]).Val() != "set" || !usertest.IsFree(s.after, key) {
			s.Error("the call has changed something")
		}
	})
}
