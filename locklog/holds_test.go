package locklog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

func TestHoldsFromTheThresholdOnAreLogged(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []locklog.Option
		hold time.Duration
		want bool
	}{
		{"shorter than the default", nil, 10*time.Second - 1, false},
		{"the default", nil, 10*time.Second + 1, true},
		{"shorter than the threshold", []locklog.Option{locklog.WithLongHold(time.Minute)}, time.Minute - 1, false},
		{"the threshold", []locklog.Option{locklog.WithLongHold(time.Minute)}, time.Minute + 1, true},
		{"all", []locklog.Option{locklog.WithLongHold(0)}, 0, true},
		{"never", []locklog.Option{locklog.WithLongHold(lockmw.Forever)}, time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := newJournal(t, tt.opts...)
				_, hold := usertest.Lock(t, t.Context(), j.local(), "item:7")
				time.Sleep(tt.hold)
				var want []string
				if tt.want && tt.hold > 0 {
					want = append(want, stillHeld)
				}
				j.messages(want...) // before the release
				usertest.Unlock(t, hold)
				if !tt.want {
					j.messages()
					return
				}
				j.messages(append(want, longHold)...)[len(want)].want(t, line{
					"level": "WARN", "lock.name": "item", "lock.operation": "lock", "lock.mode": "exclusive",
					"lock.key": "item:7", "lock.token": hold.Token(), "lock.held": tt.hold, "lock.waiters": 0,
					"lock.waited": nil, "lock.outcome": nil, "error.type": nil, "error.message": nil,
				})
			})
		})
	}
}

func TestALongHoldTellsWhoWaitedForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, locklog.WithSlowWait(lockmw.Forever))
		local := j.local()
		_, hold := usertest.Lock(t, t.Context(), local, "item:7")
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, hold := usertest.Lock(t, t.Context(), local, "item:7")
				usertest.Unlock(t, hold)
			})
		}
		time.Sleep(10*time.Second + 1)
		usertest.Unlock(t, hold)
		wg.Wait()
		j.messages(stillHeld, longHold)[1].want(t, line{"lock.waiters": 3})
	})
}

func TestTheWaitIsNotPartOfTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, locklog.WithSlowWait(lockmw.Forever))
		local := j.local()
		_, hold := usertest.Lock(t, t.Context(), local, "item:7", lockmw.WithMaxHold(20*time.Second))
		ctx, second := usertest.Lock(t, t.Context(), local, "item:7", lockmw.WithMaxHold(3*time.Second))
		lost(ctx)
		lines := j.messages(stillHeld, lockLost, lockLost)[1:]
		lines[0].want(t, line{"lock.held": 20 * time.Second, "lock.token": hold.Token()})
		lines[1].want(t, line{"lock.held": 3 * time.Second, "lock.token": second.Token()})
	})
}

func TestALossIsLoggedOnceAndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t)
		local := j.local()
		ctx, hold := usertest.Lock(t, t.Context(), local, "item:7")
		time.Sleep(3 * time.Second)
		local.Expire("item:7")
		lost(ctx)
		j.messages(lockLost)[0].want(t, line{
			"level": "ERROR", "lock.key": "item:7", "lock.token": hold.Token(), "lock.held": 3 * time.Second,
			"lock.waiters": nil, "error.type": "lock_lost", "error.message": "lockmw: lock was lost: its lease ran out",
		})
		time.Sleep(time.Minute)
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			t.Fatal(err)
		}
		j.messages(lockLost)
	})
}

func TestALossThatOnlyTheReleaseTells(t *testing.T) {
	for kind, err := range map[string]error{
		"lock_lost": fmt.Errorf("%w: its lease ran out", lockmw.ErrLost), "lock_closed": lockmw.ErrClosed,
	} {
		j := newJournal(t)
		s := newScript(j.observer)
		s.Acquired(lockmw.Acquisition{})
		s.Released(lockmw.Release{Held: time.Minute, Waiters: 2, Err: err})
		s.Lost(err)
		j.messages(lockLost)[0].want(t, line{
			"level": "ERROR", "lock.held": time.Minute, "lock.waiters": nil, "error.type": kind, "error.message": err.Error(),
		})
	}
}

func TestALockDeletedBeforeUnlockIsALoss(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		j := newJournal(t)
		_, hold := usertest.Lock(t, t.Context(), usertest.Client(t, s, lockmw.WithObserver(j.observer)), "item:7")
		if n, err := s.NewClient(t).Del(t.Context(), "lockmw:{item:7}").Result(); n != 1 || err != nil {
			t.Fatalf("deleted %d locks: %v", n, err)
		}
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			t.Errorf("Unlock: %v, want ErrLost", err)
		}
		j.messages(lockLost)[0].want(t, line{
			"level": "ERROR", "lock.name": "item", "lock.key": "item:7", "lock.token": hold.Token(),
			"lock.waiters": nil, "error.type": "lock_lost",
		})
	})
}

func TestALossAndTheReleaseAtTheSameTime(t *testing.T) {
	j := newJournal(t)
	for range 100 {
		s := newScript(j.observer)
		s.Acquired(lockmw.Acquisition{})
		var wg sync.WaitGroup
		wg.Go(func() { s.Lost(lockmw.ErrLost) })
		wg.Go(func() { s.Released(lockmw.Release{Held: time.Minute, Err: lockmw.ErrLost}) })
		wg.Wait()
	}
	if n := len(j.lines()); n != 100 {
		t.Errorf("%d lines of 100 losses", n)
	}
}

func TestAHoldThatLastsIsLoggedAtTheThreshold(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		j := newJournal(t)
		_, hold := usertest.Lock(t, t.Context(), usertest.Client(t, s, lockmw.WithObserver(j.observer)), "item:7")
		time.Sleep(time.Minute)
		l := j.messages(stillHeld)[0] // once
		if held := l.duration("lock.held"); held != 10*time.Second {
			t.Errorf("logged after %v", held)
		}
		l.want(t, line{"level": "WARN", "lock.token": hold.Token(), "lock.waiters": nil, "error.type": nil})
		usertest.Unlock(t, hold)
		j.messages(stillHeld, longHold)
	})
}

// A leader waits and leads for as long as it lives, a job for as long as it runs: that is no news.
func TestLongWaitsAndHoldsOfLeadersAndJobsAreNotLogged(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		j := newJournal(t)
		c := usertest.Client(t, s, lockmw.WithObserver(j.observer))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				err := lockmw.Lead(t.Context(), c, "lead:billing", func(context.Context) error {
					time.Sleep(time.Minute)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				_, err := lockmw.Once(t.Context(), c, "report:daily", lockmw.Every(time.Hour), func(context.Context) error {
					time.Sleep(50 * time.Second)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		j.messages()
	})
}

func TestFailedRenewals(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		j := newJournal(t, locklog.WithLongHold(lockmw.Forever))
		ctx, hold := usertest.Lock(t, t.Context(), usertest.Client(t, s, lockmw.WithObserver(j.observer)), "item:7")
		for outages := range 2 {
			s.Mini.SetError("LOADING not yet")
			time.Sleep(15 * time.Second) // time for several renewals
			s.Mini.SetError("")
			time.Sleep(30 * time.Second)
			lines := j.lines()
			if len(lines) != outages+1 {
				t.Fatalf("%d outages, logged %d lines:\n%s", outages+1, len(lines), j)
			}
			lines[outages].want(t, line{"level": "WARN", "msg": renewalFailed, "lock.token": hold.Token(), "error.type": "lock_unavailable"})
		}
		s.Mini.SetError("LOADING not yet")
		lost(ctx)
		s.Mini.SetError("")
		lines := j.messages(renewalFailed, renewalFailed, renewalFailed, lockLost)
		if a, b := lines[2].duration("lock.held"), lines[3].duration("lock.held"); a >= b || b < 105*time.Second {
			t.Errorf("the renewal failed after %v, the lock was lost after %v", a, b)
		}
	})
}

func TestARenewalThatFindsTheLockLostIsALoss(t *testing.T) {
	j := newJournal(t)
	s := newScript(j.observer)
	s.Acquired(lockmw.Acquisition{})
	s.Renewed(lockmw.ErrLost)
	s.Lost(lockmw.ErrLost)
	s.Renewed(lockmw.ErrUnavailable)
	j.messages(lockLost)
}

func TestAFailedReleaseIsLogged(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		j := newJournal(t)
		_, hold := usertest.Lock(t, t.Context(), usertest.Client(t, s, lockmw.WithObserver(j.observer)), "item:7", lockmw.WithLease(time.Minute))
		time.Sleep(12 * time.Second) // the line of a long hold would say less
		s.Mini.SetError("LOADING not yet")
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrUnavailable) {
			t.Fatal(err)
		}
		s.Mini.SetError("")
		l := j.messages(stillHeld, releaseFailed)[1]
		l.want(t, line{"level": "WARN", "lock.token": hold.Token(), "lock.waiters": 0, "error.type": "lock_unavailable"})
		if held := l.duration("lock.held"); held < 12*time.Second {
			t.Errorf("held for %v", held)
		}
	})
}

func TestFailingOpenIsLogged(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		j := newJournal(t, locklog.WithSlowWait(0), locklog.WithLongHold(0))
		var log usertest.Output
		c := usertest.Client(t, s, lockmw.WithObserver(j.observer), lockmw.WithFailOpen(), lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		s.Mini.SetError("LOADING not yet")
		_, hold := usertest.Lock(t, t.Context(), c, "item:7")
		time.Sleep(time.Minute)
		usertest.Unlock(t, hold)
		s.Mini.SetError("")
		if got := log.String(); strings.Contains(got, "without a lock") {
			t.Errorf("the Client also logs it: %s", got)
		}
		l := j.messages(failedOpen)[0] // it was no hold
		l.want(t, line{"level": "WARN", "lock.key": "item:7", "lock.token": nil, "lock.outcome": "error", "error.type": "lock_unavailable"})
		if l.duration("lock.waited") < 0 {
			t.Error("lock.waited is missing")
		}
	})
}
