package bridge_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestACallWaitsForTheOldKey(t *testing.T) {
	each(t, func(s *scene) {
		s.takeAll(s, s.rdb, "old")
		call, waits := usertest.OnContended(s)
		go func() {
			waits()
			time.Sleep(5 * time.Second)
			s.freeAll(s, s.rdb, "old")
		}()
		start := time.Now()
		_, hold := s.lock(call)
		if n := s.locks.OldKeyBusy(); n != 1 {
			s.Errorf("%d calls have found the old key busy, want one", n)
		}
		if took := time.Since(start); took < 5*time.Second || took > 5200*time.Millisecond {
			s.Errorf("the lock is taken after %v", took)
		}
		usertest.Unlock(s, hold)
	})
}

// Other callers leave the key free for a millisecond between two holds of ten.
func TestACallPollsOftenWhileTheOldKeyPassesFromHolderToHolder(t *testing.T) {
	each(t, func(s *scene) {
		const rounds = 20
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		go func() {
			for ctx.Err() == nil {
				if s.takeAll(s, s.rdb, "old") {
					time.Sleep(10 * time.Millisecond)
				}
				s.freeAll(s, s.rdb, "old")
				time.Sleep(time.Millisecond)
			}
		}()
		start := time.Now()
		for range rounds {
			_, hold := s.lock()
			usertest.Unlock(s, hold)
			time.Sleep(5 * time.Millisecond)
		}
		if mean := time.Since(start) / rounds; mean > 250*time.Millisecond {
			s.Errorf("a call waits for %v on average", mean)
		}
	})
}

// The old code that has the key may itself wait for a lock of the caller. lockmw cannot know that.
func TestADeadlockThroughOldCodeEndsWithTheWait(t *testing.T) {
	each(t, func(s *scene) {
		ctx, hold := usertest.Lock(s, s.Context(), s.locks, "item:8")
		s.takeAll(s, s.rdb, "old")
		start := time.Now()
		_, _, err := s.locks.Lock(ctx, key, lockmw.WithWait(5*time.Second), lockmw.WithDeadlockDetection(time.Second))
		s.aboutOld(err, lockmw.ErrBusy)
		if took := time.Since(start); errors.Is(err, lockmw.ErrDeadlock) || took < 5*time.Second {
			s.Errorf("after %v: %v", took, err)
		}
		usertest.Unlock(s, hold)
	})
}
