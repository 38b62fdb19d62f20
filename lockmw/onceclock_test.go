package lockmw_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestAClockThatIsOffIsRefused(t *testing.T) {
	for name, tick := range map[string]struct {
		by   time.Duration
		says string
	}{
		"ahead":  {time.Hour, "the job is not due now: the tick"},
		"behind": {-time.Hour, "1h0m0s behind the server's clock"},
	} {
		t.Run(name, func(t *testing.T) {
			onReplicas(t, func(t *testing.T, replica func() lockmw.Locker) {
				at := time.Now().Add(tick.by)
				begun := time.Now()
				ran, err := lockmw.Once(t.Context(), replica(), jobKey, lockmw.At(at), nothing(t))
				off, ok := errors.AsType[*lockmw.ClockError](err)
				if ran || !errors.Is(err, lockmw.ErrClockOff) || !ok || !strings.Contains(err.Error(), tick.says) {
					t.Fatalf("Once: %t, %v, want ErrClockOff, %s", ran, err, tick.says)
				}
				if off.Difference().Round(time.Second) != tick.by || !off.Tick.Equal(at) || off.Within != time.Minute || time.Since(begun) > time.Second {
					t.Errorf("after %v it says %+v", time.Since(begun), off)
				}
			})
		})
	}
}

// A replica whose clock is off by less than Within takes part. Its own clock decides nothing.
func TestTheServersClockDecides(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		clock := s.NewClock(t)
		c := usertest.Client(t, s)
		clock.Step(50 * time.Second)
		wantRun(t, "off by less", c, lockmw.Tick{At: time.Now()})
		clock.Step(time.Hour)
		ran, err := lockmw.Once(t.Context(), c, jobKey, lockmw.Every(time.Hour), nothing(t))
		if off, ok := errors.AsType[*lockmw.ClockError](err); ran || !ok || off.Difference().Round(time.Minute) != -61*time.Minute {
			t.Errorf("off by more: %t, %v", ran, err)
		}
	})
}

// A replica does not go home because the lock is busy, and does not say then that another one has run the tick.
func TestABusyJobIsWaitedForUntilTheTickIsOver(t *testing.T) {
	onReplicas(t, func(t *testing.T, replica func() lockmw.Locker) {
		tick := lockmw.Every(time.Hour)
		release := usertest.Occupy(t, replica(), jobKey)
		time.Sleep(20 * time.Second)
		ran, err := lockmw.Once(t.Context(), replica(), jobKey, tick, nothing(t))
		e, ok := errors.AsType[*lockmw.Error](err)
		if ran || !errors.Is(err, lockmw.ErrBusy) || !ok || e.Op != "once" || len(e.Holders) != 1 {
			t.Errorf("Once: %t, %v, want ErrBusy", ran, err)
		}
		if late := time.Since(tick.At) - time.Minute; late < 0 || late > time.Second {
			t.Errorf("it went home %v after the tick, want 1m", time.Since(tick.At))
		}
		release()
		time.Sleep(time.Minute)
		begun := time.Now()
		if _, err := lockmw.Once(t.Context(), replica(), jobKey, tick, nothing(t)); !errors.Is(err, lockmw.ErrClockOff) {
			t.Errorf("a minute later: %v, want ErrClockOff", err)
		}
		defer usertest.Occupy(t, replica(), jobKey)()
		_, err = lockmw.Once(t.Context(), replica(), jobKey, tick, nothing(t))
		if !errors.Is(err, lockmw.ErrBusy) || time.Since(begun) > time.Second {
			t.Errorf("a minute later, while the lock is busy: %v after %v, want ErrBusy immediately", err, time.Since(begun))
		}
	})
}

// The lock may become free when the tick is no longer due by the server's clock, but still due by the replica's clock.
func TestATickThatIsOverWhenTheLockIsFreeIsToldAsBusy(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		s.NewClock(t).Step(10 * time.Second)
		holds, waits := usertest.Client(t, s), usertest.Client(t, s)
		release := usertest.Occupy(t, holds, jobKey)
		time.AfterFunc(55*time.Second+2*time.Millisecond, release) // between two ticks of the server's clock
		ran, err := lockmw.Once(t.Context(), waits, jobKey, lockmw.Every(time.Hour), nothing(t))
		if ran || !errors.Is(err, lockmw.ErrBusy) || errors.Is(err, lockmw.ErrClockOff) || !strings.Contains(err.Error(), "1m5") {
			t.Errorf("Once: %t, %v, want ErrBusy", ran, err)
		}
	})
}

func TestATickThatIsOverWhenRedisIsBackIsToldAsUnavailable(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		s.NewClock(t).Step(10 * time.Second)
		wire := s.NewWire()
		c := usertest.ClientOf(t, s.NewClient(t, wire.Use))
		wire.Cut()
		time.AfterFunc(51*time.Second, wire.Restore)
		ran, err := lockmw.Once(t.Context(), c, jobKey, lockmw.Every(time.Hour), nothing(t))
		if ran || !errors.Is(err, lockmw.ErrUnavailable) || errors.Is(err, lockmw.ErrBusy) || errors.Is(err, lockmw.ErrClockOff) {
			t.Errorf("Once: %t, %v, want ErrUnavailable", ran, err)
		}
		if took := time.Since(lockmw.Every(time.Hour).At); took < 51*time.Second || took > time.Minute {
			t.Errorf("after %v, want when Redis is back", took)
		}
	})
}

func TestOnceWaitsNoLongerThanItsTickLasts(t *testing.T) {
	for by, want := range map[time.Duration]time.Duration{ // of the tick from now
		0: time.Minute, 30 * time.Second: 90 * time.Second, -30 * time.Second: 30 * time.Second,
		time.Hour: 2 * time.Minute, -time.Hour: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &nodes{fail: core.ErrClosed}
			l := overLocks(t, n, core.Kind{})
			_, _ = lockmw.Once(t.Context(), l, jobKey, lockmw.Tick{At: time.Now().Add(by)}, nothing(t))
			if got := n.requests[0].Wait; got != want {
				t.Errorf("a tick %v from now is waited for for %v, want %v", by, got, want)
			}
		})
	}
}

func TestEveryIsTheNearestMultipleOfThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from midnight on
		midnight := time.Now()
		for _, tt := range []struct {
			after, period, at, within time.Duration
		}{
			{0, time.Hour, 0, time.Minute},
			{20 * time.Second, time.Hour, 0, time.Minute},
			{20 * time.Second, time.Minute, 0, 30 * time.Second},
			{40 * time.Second, time.Minute, time.Minute, 30 * time.Second},
			{41 * time.Second, 10 * time.Second, 40 * time.Second, 5 * time.Second},
			{59 * time.Minute, time.Hour, time.Hour, time.Minute},
		} {
			time.Sleep(time.Until(midnight.Add(tt.after)))
			got := lockmw.Every(tt.period)
			if at := got.At.Sub(midnight); at != tt.at || got.Within != tt.within {
				t.Errorf("%v after midnight, every %v: the tick is at %v within %v, want %v within %v",
					tt.after, tt.period, at, got.Within, tt.at, tt.within)
			}
		}
	})
}

// Instants in the same millisecond are one tick.
func TestTicksAreCountedInMilliseconds(t *testing.T) {
	local := lockmw.NewLocal()
	at := time.Now().Truncate(time.Millisecond)
	wantRun(t, "the first", local, lockmw.Tick{At: at.Add(999 * time.Microsecond)})
	wantElsewhere(t, local, lockmw.Tick{At: at})
	wantElsewhere(t, local, lockmw.Tick{At: at.In(time.FixedZone("elsewhere", 3600))})
}
