package locklog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/locklog"
	"github.com/lockmw/go/lockmw"
)

func TestSeveralObserversLogEachForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newJournal(t), newJournal(t, locklog.WithSlowWait(3*time.Second))
		local := lockmw.NewLocal(lockmw.WithObserver(a.observer), lockmw.WithObserver(b.observer))
		_, hold := usertest.Lock(t, t.Context(), local, "item:7")
		time.AfterFunc(2*time.Second, func() { usertest.Unlock(t, hold) })
		_, hold = usertest.Lock(t, t.Context(), local, "item:7")
		time.Sleep(10*time.Second + 1)
		usertest.Unlock(t, hold)
		a.messages(stillWaiting, slowWait, stillHeld, longHold)
		b.messages(stillHeld, longHold)
	})
}

// A copy is another observer to the seam.
func TestMountedTwiceItLogsOnce(t *testing.T) {
	for name, again := range map[string]func(o *lockmw.Observer) *lockmw.Observer{
		"the same": func(o *lockmw.Observer) *lockmw.Observer { return o },
		"a copy":   func(o *lockmw.Observer) *lockmw.Observer { c := *o; return &c },
	} {
		t.Run(name, func(t *testing.T) {
			usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
				j := newJournal(t)
				twice := lockmw.WithObserver(again(j.observer))
				c := usertest.Client(t, s, lockmw.WithObserver(j.observer), twice)
				_, hold := usertest.Lock(t, t.Context(), c, "item:7", twice)
				if _, _, err := c.Lock(t.Context(), "item:7", lockmw.WithWait(12*time.Second)); !errors.Is(err, lockmw.ErrBusy) {
					t.Error(err)
				}
				time.Sleep(10 * time.Second)
				usertest.Unlock(t, hold)
				ctx, _ := usertest.Lock(t, t.Context(), c, "item:7")
				s.Mini.SetError("LOADING not yet")
				lost(ctx)
				s.Mini.SetError("")
				got := make(map[string]int)
				for _, l := range j.lines() {
					got[l.message()]++
				}
				// Both holds last.
				if want := (map[string]int{stillWaiting: 1, slowWait: 1, stillHeld: 2, longHold: 1, renewalFailed: 1, lockLost: 1}); !maps.Equal(got, want) {
					t.Errorf("logged %v, want %v", got, want)
				}
			})
		})
	}
}

func TestNestedLocksAreLoggedEachByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, locklog.WithLongHold(3*time.Second))
		local := j.local()
		ctx, outer := usertest.Lock(t, t.Context(), local, "outer:1")
		time.Sleep(time.Second)
		ctx, inner := usertest.Lock(t, ctx, local, "inner:1")
		_, again := usertest.Lock(t, ctx, local, "outer:1") // re-entry
		time.Sleep(2*time.Second + 1)
		usertest.Unlock(t, again)
		local.Expire("inner:1")
		lost(ctx)
		_ = inner.Unlock() // lost
		usertest.Unlock(t, outer)
		lines := j.messages(stillHeld, lockLost, longHold)
		lines[0].want(t, line{"lock.key": "outer:1", "lock.held": 3 * time.Second})
		lines[1].want(t, line{"lock.key": "inner:1", "lock.held": 2*time.Second + 1})
		lines[2].want(t, line{"lock.key": "outer:1", "lock.held": 3*time.Second + 1})
	})
}

// A Locker around another one may report the same attempt.
func TestAnAttemptWithinAnAttemptIsLoggedOnce(t *testing.T) {
	j := newJournal(t, locklog.WithSlowWait(0), locklog.WithLongHold(0))
	outer := newScript(j.observer)
	inner := usertest.NewScript(outer.Ctx, j.observer)
	inner.Acquired(lockmw.Acquisition{})
	outer.Acquired(lockmw.Acquisition{})
	inner.Released(lockmw.Release{})
	outer.Released(lockmw.Release{})
	j.messages(slowWait, longHold)
}

// A callback of another observer takes a lock of its own while the call waits.
func TestALockOfAnotherKeyTakenDuringAWaitIsLogged(t *testing.T) {
	j := newJournal(t, locklog.WithSlowWait(0), locklog.WithLongHold(0))
	outer := newScript(j.observer)
	local := j.local()
	_, inner := usertest.Lock(t, outer.Ctx, local, "inner:1")
	usertest.Unlock(t, inner)
	outer.Acquired(lockmw.Acquisition{})
	outer.Released(lockmw.Release{})
	lines := j.messages(slowWait, longHold, slowWait, longHold)
	for i, key := range []string{"inner:1", "inner:1", "item:7", "item:7"} {
		lines[i].want(t, line{"lock.key": key})
	}
}

func TestLocksWithinOneThatFailedOpenAreLogged(t *testing.T) {
	j := newJournal(t, locklog.WithSlowWait(0), locklog.WithLongHold(0))
	outer := newScript(j.observer)
	outer.Acquired(lockmw.Acquisition{FailedOpen: lockmw.ErrUnavailable})
	_, hold := usertest.Lock(t, outer.Ctx, j.local(), "inner:1")
	outer.Released(lockmw.Release{})
	usertest.Unlock(t, hold)
	for _, l := range j.messages(failedOpen, slowWait, longHold)[1:] {
		l.want(t, line{"lock.key": "inner:1"})
	}
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool  { return true }
func (panicking) Handle(context.Context, slog.Record) error { panic("disk full") }

func TestAHandlerThatPanicsDoesNotHarmTheLock(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.DiscardHandler)) // where the seam reports it
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(panicking{slog.DiscardHandler})
		local := lockmw.NewLocal(lockmw.WithObserver(locklog.New(logger, locklog.WithSlowWait(0), locklog.WithLongHold(0))))
		ctx, hold := usertest.Lock(t, t.Context(), local, "item:7")
		if _, err := lockmw.Held(ctx, "item:7"); err != nil {
			t.Error(err)
		}
		usertest.Unlock(t, hold)
		ctx, hold = usertest.Lock(t, t.Context(), local, "item:7")
		local.Expire("item:7")
		lost(ctx)
		if err := hold.Unlock(); !errors.Is(err, lockmw.ErrLost) {
			t.Error(err)
		}
		_, hold = usertest.Lock(t, t.Context(), local, "item:7")
		usertest.Unlock(t, hold)
	})
}

// A timer logs a hold that lasts: nobody else would recover its panic.
func TestAHandlerThatPanicsInATimerEndsNothing(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.DiscardHandler)) // where the seam reports it
	synctest.Test(t, func(t *testing.T) {
		logger := slog.New(panicking{slog.DiscardHandler})
		local := lockmw.NewLocal(lockmw.WithObserver(locklog.New(logger, locklog.WithLongHold(time.Second))))
		_, hold := usertest.Lock(t, t.Context(), local, "item:7")
		time.Sleep(2 * time.Second)
		usertest.Unlock(t, hold)
	})
}

// Callbacks that come out of turn say nothing, and do no harm.
func TestCallbacksOutOfTurn(t *testing.T) {
	j := newJournal(t, locklog.WithSlowWait(0), locklog.WithLongHold(0))
	s := newScript(j.observer)
	s.Renewed(lockmw.ErrUnavailable)
	s.Lost(lockmw.ErrLost)
	s.Released(lockmw.Release{})
	j.messages()
	s.Acquired(lockmw.Acquisition{})
	s.Contended(lockmw.Contention{})
	s.Acquired(lockmw.Acquisition{})
	s.Failed(&lockmw.Error{Err: lockmw.ErrBusy})
	j.messages(slowWait)
	s.Released(lockmw.Release{})
	s.Released(lockmw.Release{})
	s.Lost(lockmw.ErrLost)
	s.Renewed(lockmw.ErrUnavailable)
	j.messages(slowWait, longHold)

	s = newScript(j.observer)
	s.Ctx = context.Background() // other code has replaced the attempt's context
	s.Contended(lockmw.Contention{})
	s.Acquired(lockmw.Acquisition{})
	s.Failed(&lockmw.Error{Err: lockmw.ErrBusy})
	s.Renewed(lockmw.ErrUnavailable)
	s.Lost(lockmw.ErrLost)
	s.Released(lockmw.Release{})
	j.messages(slowWait, longHold)
}

func TestContextsDoNotPrintTheirFields(t *testing.T) {
	if got := fmt.Sprintf("%+v", newScript(newJournal(t).observer).Ctx); got != "locklog.attempt" {
		t.Errorf("the context is printed as %s", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	j := newJournal(t, locklog.WithSlowWait(0), locklog.WithLongHold(0))
	local := j.local()
	const goroutines, rounds = 8, 50
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			for n := range rounds {
				var l lockmw.Locker = local
				if (i+n)%3 == 0 {
					l = local.RLocker()
				}
				_, hold, err := l.Lock(t.Context(), fmt.Sprintf("item:%d", n%3))
				if err != nil {
					t.Error(err)
					return
				}
				if n%5 == 0 {
					local.Expire(hold.Key())
				}
				if err := hold.Unlock(); err != nil && !errors.Is(err, lockmw.ErrLost) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	counts := make(map[string]int)
	for _, l := range j.lines() {
		counts[l.message()]++
	}
	const all = goroutines * rounds
	if counts[slowWait] != all || counts[longHold]+counts[lockLost] != all || counts[lockLost] < all/5 {
		t.Errorf("%d attempts logged %v", all, counts)
	}
}
