package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

const jobKey = "report:hourly"

// onReplicas runs test in a bubble: with Clients of processes of their own, and with calls that share a Local.
func onReplicas(t *testing.T, test func(t *testing.T, replica func() lockmw.Locker)) {
	t.Run("redis", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := redistest.Piped(t)
			test(t, func() lockmw.Locker { return newBubbleClient(t, s, s.NewWire()) })
		})
	})
	t.Run("local", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockmw.NewLocal()
			test(t, func() lockmw.Locker { return l })
		})
	})
}

// tickScript is the hash of begin.lua or mark.lua.
func tickScript(name string) string {
	return script.NewSet(script.DefaultParams(true)).All()[name].SHA
}

// nothing is a run that must not be called.
func nothing(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("it runs")
		return nil
	}
}

// wantElsewhere checks that a replica is told that another one has run the tick.
func wantElsewhere(t *testing.T, l lockmw.Locker, tick lockmw.Tick) {
	t.Helper()
	if ran, err := lockmw.Once(t.Context(), l, jobKey, tick, nothing(t)); ran || err != nil {
		t.Errorf("Once: %t, %v, want false: another one has run it", ran, err)
	}
}

func TestOneOfSeveralReplicasRunsATick(t *testing.T) {
	onReplicas(t, func(t *testing.T, replica func() lockmw.Locker) {
		var runs, here, elsewhere atomic.Int32
		var wg sync.WaitGroup
		for i := range 5 {
			l := replica()
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Second) // their clocks differ
				ran, err := lockmw.Once(t.Context(), l, jobKey, lockmw.Every(time.Hour), func(ctx context.Context) error {
					runs.Add(1)
					if _, err := lockmw.Held(ctx, jobKey); err != nil {
						t.Error(err)
					}
					time.Sleep(30 * time.Second) // longer than the lease
					return ctx.Err()
				})
				switch {
				case err != nil:
					t.Error(err)
				case ran:
					here.Add(1)
				default:
					elsewhere.Add(1)
				}
			})
		}
		wg.Wait()
		if runs.Load() != 1 || here.Load() != 1 || elsewhere.Load() != 4 {
			t.Errorf("%d runs; it ran here for %d, elsewhere for %d, want 1, 1, 4", runs.Load(), here.Load(), elsewhere.Load())
		}
	})
}

func TestTicksOfAJobDoNotOverlap(t *testing.T) {
	onReplicas(t, func(t *testing.T, replica func() lockmw.Locker) {
		const period = time.Minute
		begun := time.Now()
		var mu sync.Mutex
		var starts []time.Duration
		running := 0
		var wg sync.WaitGroup
		for range 3 {
			l := replica()
			wg.Go(func() {
				for time.Since(begun) < 2*period+period/2 {
					_, err := lockmw.Once(t.Context(), l, jobKey, lockmw.Every(period), func(context.Context) error {
						mu.Lock()
						starts = append(starts, time.Since(begun))
						if running++; running > 1 {
							t.Error("two run at once")
						}
						first := len(starts) == 1
						mu.Unlock()
						if first {
							time.Sleep(period + 10*time.Second) // into the next tick
						}
						mu.Lock()
						running--
						mu.Unlock()
						return nil
					})
					if err != nil && !errors.Is(err, lockmw.ErrBusy) {
						t.Error(err)
					}
					time.Sleep(time.Until(time.Now().Truncate(period).Add(period)))
				}
			})
		}
		wg.Wait()
		want := []time.Duration{0, period + 10*time.Second, 2 * period}
		if len(starts) != 3 || (starts[1]-want[1]).Abs() > 5*time.Second || (starts[2]-want[2]).Abs() > 5*time.Second {
			t.Errorf("runs began at %v, want %v", starts, want)
		}
	})
}

// Whatever a run does, its tick was run.
func TestATickIsMarkedHoweverItsRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	for name, run := range map[string]func(context.Context) error{
		"nil":        func(context.Context) error { return nil },
		"error":      func(context.Context) error { return io.EOF },
		"its ctx":    func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() },
		"like a lie": func(context.Context) error { return lockmw.ErrLost },
	} {
		t.Run(name, func(t *testing.T) {
			onReplicas(t, func(t *testing.T, replica func() lockmw.Locker) {
				ctx, cancel = context.WithCancel(t.Context())
				defer cancel()
				tick := lockmw.Every(time.Hour)
				var want error
				ran, err := lockmw.Once(ctx, replica(), jobKey, tick, func(ctx context.Context) error {
					want = run(ctx)
					return want
				})
				if !ran || err != want {
					t.Errorf("Once: %t, %v, want true, %v", ran, err, want)
				}
				wantElsewhere(t, replica(), tick)
			})
		})
	}
	t.Run("panic", func(t *testing.T) {
		onReplicas(t, func(t *testing.T, replica func() lockmw.Locker) {
			tick := lockmw.Every(time.Hour)
			func() {
				defer func() {
					if v := recover(); v != "boom" {
						t.Errorf("recovered %v", v)
					}
				}()
				_, _ = lockmw.Once(t.Context(), replica(), jobKey, tick, func(context.Context) error { panic("boom") })
			}()
			begun := time.Now()
			wantElsewhere(t, replica(), tick)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("the lock was free after %v", took)
			}
		})
	})
}

func TestATickIsRunOnceMoreAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		tick := lockmw.Every(time.Hour)
		var ended, again time.Time
		wire := s.NewWire()
		crashes, follows, late := newBubbleClient(t, s, wire), newBubbleClient(t, s, s.NewWire()), newBubbleClient(t, s, s.NewWire())
		var wg sync.WaitGroup
		began := make(chan struct{})
		wg.Go(func() {
			ran, err := lockmw.Once(t.Context(), crashes, jobKey, tick, func(ctx context.Context) error {
				close(began)
				<-ctx.Done()
				ended = time.Now()
				return io.EOF
			})
			if e, ok := errors.AsType[*lockmw.Error](err); !ran || !errors.Is(err, lockmw.ErrLost) || !errors.Is(err, io.EOF) || !ok || e.Op != "once" {
				t.Errorf("Once: %t, %v, want an *Error that wraps ErrLost and what run returned", ran, err)
			}
		})
		<-began
		wg.Go(func() {
			ran, err := lockmw.Once(t.Context(), follows, jobKey, tick, func(context.Context) error {
				again = time.Now()
				return nil
			})
			if !ran || err != nil {
				t.Errorf("Once: %t, %v, want it to run", ran, err)
			}
		})
		time.Sleep(30 * time.Second)
		wire.Cut()
		cut := time.Now()
		synctest.Wait()
		time.Sleep(25 * time.Second)
		wg.Wait()
		if took := again.Sub(cut); took > 10*time.Second || ended.After(again) {
			t.Errorf("cut off, its context ended after %v, another one ran after %v, want 10s", ended.Sub(cut), took)
		}
		wantElsewhere(t, late, tick)
		wire.Restore()
	})
}

func TestATickThatWasBegunTwiceIsNotBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lockmw.NewLocal()
		tick := lockmw.Every(time.Hour)
		loses := func(ctx context.Context) error {
			l.Expire(jobKey)
			<-ctx.Done()
			return nil
		}
		for range 2 {
			if ran, err := lockmw.Once(t.Context(), l, jobKey, tick, loses); !ran || !errors.Is(err, lockmw.ErrLost) {
				t.Errorf("Once: %t, %v, want true, ErrLost", ran, err)
			}
		}
		for range 2 {
			ran, err := lockmw.Once(t.Context(), l, jobKey, tick, nothing(t))
			if ran || !errors.Is(err, lockmw.ErrUnfinished) || !strings.Contains(err.Error(), jobKey) {
				t.Errorf("Once: %t, %v, want ErrUnfinished", ran, err)
			}
		}
	})
}

func TestAClockThatIsOffIsRefused(t *testing.T) {
	for name, tick := range map[string]struct {
		by   time.Duration
		says string
	}{
		"ahead":  {time.Hour, "1h0m0s ahead of the server's clock"},
		"behind": {-time.Hour, "1h0m0s behind the server's clock"},
	} {
		t.Run(name, func(t *testing.T) {
			onReplicas(t, func(t *testing.T, replica func() lockmw.Locker) {
				at := time.Now().Add(tick.by)
				begun := time.Now()
				ran, err := lockmw.Once(t.Context(), replica(), jobKey, lockmw.Tick{At: at}, nothing(t))
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
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		clock := s.NewClock(t)
		c := newBubbleClient(t, s, s.NewWire())
		clock.Step(50 * time.Second)
		if ran, err := lockmw.Once(t.Context(), c, jobKey, lockmw.Tick{At: time.Now()}, func(context.Context) error { return nil }); !ran || err != nil {
			t.Errorf("off by less: %t, %v", ran, err)
		}
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
			t.Errorf("a minute later, while the lock is busy: %v after %v, want ErrBusy at once", err, time.Since(begun))
		}
	})
}

// The lock may become free when the tick is over by the server's clock, and not yet by that of the replica.
func TestATickThatIsOverWhenTheLockIsFreeIsToldAsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		s.NewClock(t).Step(10 * time.Second)
		holds, waits := newBubbleClient(t, s, s.NewWire()), newBubbleClient(t, s, s.NewWire())
		release := usertest.Occupy(t, holds, jobKey)
		time.AfterFunc(55*time.Second, release)
		ran, err := lockmw.Once(t.Context(), waits, jobKey, lockmw.Every(time.Hour), nothing(t))
		if ran || !errors.Is(err, lockmw.ErrBusy) || errors.Is(err, lockmw.ErrClockOff) || !strings.Contains(err.Error(), "1m5") {
			t.Errorf("Once: %t, %v, want ErrBusy", ran, err)
		}
	})
}

func TestATickThatIsOverWhenRedisIsBackIsToldAsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		s.NewClock(t).Step(10 * time.Second)
		wire := s.NewWire()
		c := newBubbleClient(t, s, wire)
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

func TestOnceWaitsForARedisThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		wire := s.NewWire()
		c := newBubbleClient(t, s, wire)
		wire.Cut()
		tick := lockmw.Every(time.Hour)
		ran, err := lockmw.Once(t.Context(), c, jobKey, tick, nothing(t))
		if late := time.Since(tick.At) - time.Minute; ran || !errors.Is(err, lockmw.ErrUnavailable) || late < 0 || late > 500*time.Millisecond {
			t.Errorf("Once: %t, %v after %v, want ErrUnavailable after a minute", ran, err, time.Since(tick.At))
		}
		tick = lockmw.Tick{At: time.Now()}
		time.AfterFunc(30*time.Second, wire.Restore)
		if ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(context.Context) error { return nil }); !ran || err != nil {
			t.Errorf("when Redis is back: %t, %v", ran, err)
		}
	})
}

// Lost answers are asked for again, and what was done twice counts once.
func TestLostAnswersDoNotMakeATickRunTwice(t *testing.T) {
	for _, name := range []string{"begin", "mark"} {
		for how, disturb := range map[string]func(w *redistest.Wire, match ...string) *redistest.Fault{
			"reply lost": (*redistest.Wire).LoseReply,
			"withheld":   (*redistest.Wire).Withhold,
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := redistest.Piped(t)
					wire := s.NewWire()
					c, other := newBubbleClient(t, s, wire), newBubbleClient(t, s, s.NewWire())
					run := func(context.Context) error { return nil }
					if _, err := lockmw.Once(t.Context(), c, "warm:up", lockmw.Every(time.Hour), run); err != nil {
						t.Fatal(err)
					}
					tick := lockmw.Every(time.Hour)
					faults := []*redistest.Fault{disturb(wire, tickScript(name)), disturb(wire, tickScript(name))}
					runs := 0
					ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(context.Context) error {
						runs++
						return nil
					})
					if !ran || err != nil || runs != 1 {
						t.Errorf("Once: %t, %v after %d runs", ran, err, runs)
					}
					for _, f := range faults {
						<-f.Caught()
						if how == "withheld" {
							if _, err := f.Send(t.Context()); err != nil { // now it arrives
								t.Error(err)
							}
							f.Break()
						}
					}
					wantElsewhere(t, other, tick)
					key := fmt.Sprintf("lockmw:{%s}:tick:%d", jobKey, tick.At.UnixMilli())
					if noted := s.NewClient(t).Get(t.Context(), key).Val(); !strings.HasPrefix(noted, "ran ") || strings.Count(noted, " ") != 1 {
						t.Errorf("it is noted %q", noted)
					}
				})
			})
		}
	}
}

// The mark is the last word, even if it comes late: what matters is that a run came to its end.
func TestAMarkThatComesLateCountsUnlessAnotherReplicaHasBegun(t *testing.T) {
	for _, another := range []bool{false, true} {
		t.Run(fmt.Sprint(another), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := redistest.Piped(t)
				wire := s.NewWire()
				c, other := newBubbleClient(t, s, wire), newBubbleClient(t, s, s.NewWire())
				tick := lockmw.Every(time.Hour)
				time.AfterFunc(30*time.Second, wire.Restore)
				var wg sync.WaitGroup
				ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(context.Context) error {
					wire.Cut() // for longer than the lease
					if another {
						wg.Go(func() {
							ran, err := lockmw.Once(t.Context(), other, jobKey, tick, func(context.Context) error { return nil })
							if !ran || err != nil {
								t.Errorf("the other one: %t, %v", ran, err)
							}
						})
					}
					return nil
				})
				wg.Wait()
				if !ran || errors.Is(err, lockmw.ErrLost) != another || !another && err != nil {
					t.Errorf("Once: %t, %v", ran, err)
				}
				wantElsewhere(t, other, tick)
			})
		})
	}
}

// Nobody runs a tick again because it cannot be marked.
func TestATickThatCannotBeMarkedKeepsItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		c, other, admin := newBubbleClient(t, s, s.NewWire()), newBubbleClient(t, s, s.NewWire()), s.NewClient(t)
		tick := lockmw.Every(time.Hour)
		key := fmt.Sprintf("lockmw:{%s}:tick:%d", jobKey, tick.At.UnixMilli())
		var wg sync.WaitGroup
		began := time.Now()
		ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(context.Context) error {
			admin.Del(t.Context(), key)
			admin.LPush(t.Context(), key, "theirs")
			wg.Go(func() {
				ran, err := lockmw.Once(t.Context(), other, jobKey, tick, nothing(t))
				if ran || !errors.Is(err, lockmw.ErrBusy) && !errors.Is(err, lockmw.ErrWrongType) {
					t.Errorf("the other one: %t, %v, want ErrBusy", ran, err)
				}
				if time.Since(began) < time.Minute {
					t.Errorf("it had the lock %v after the tick", time.Since(began))
				}
			})
			synctest.Wait()
			return io.EOF
		})
		if !ran || !errors.Is(err, lockmw.ErrWrongType) || !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "cannot be marked") {
			t.Errorf("Once: %t, %v, want ErrWrongType and what run returned", ran, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it returned after %v", took)
		}
		wg.Wait()
		ran, err = lockmw.Once(t.Context(), other, jobKey, lockmw.Tick{At: tick.At.Add(90 * time.Second)}, func(context.Context) error { return nil })
		if !ran || err != nil {
			t.Errorf("the next tick: %t, %v", ran, err)
		}
	})
}

func TestOnceEndsWithItsContext(t *testing.T) {
	onReplicas(t, func(t *testing.T, replica func() lockmw.Locker) {
		usertest.Occupy(t, replica(), jobKey)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begun := time.Now()
		ran, err := lockmw.Once(ctx, replica(), jobKey, lockmw.Every(time.Hour), nothing(t))
		if e, ok := errors.AsType[*lockmw.Error](err); ran || !errors.Is(err, context.DeadlineExceeded) || !ok || e.Op != "once" || time.Since(begun) > 11*time.Second {
			t.Errorf("Once: %t, %v after %v", ran, err, time.Since(begun))
		}
		cancel()
		if ran, err := lockmw.Once(ctx, replica(), jobKey, lockmw.Every(time.Hour), nothing(t)); ran || !errors.Is(err, lockmw.ErrNotRequested) {
			t.Errorf("Once: %t, %v, want ErrNotRequested", ran, err)
		}
	})
}

// Between the answer that a tick is begun and the run.
func TestARunDoesNotBeginAfterTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		wire := s.NewWire()
		c, other := newBubbleClient(t, s, wire), newBubbleClient(t, s, s.NewWire())
		run := func(context.Context) error { return nil }
		if _, err := lockmw.Once(t.Context(), c, "warm:up", lockmw.Every(time.Hour), run); err != nil {
			t.Fatal(err)
		}
		tick := lockmw.Every(time.Hour)
		held := wire.HoldReply(tickScript("begin"))
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-held.Caught()
			cancel()
			held.Deliver()
		}()
		if ran, err := lockmw.Once(ctx, c, jobKey, tick, nothing(t)); ran || !errors.Is(err, context.Canceled) {
			t.Errorf("Once: %t, %v, want the end of its context", ran, err)
		}
		if ran, err := lockmw.Once(t.Context(), other, jobKey, tick, run); !ran || err != nil {
			t.Errorf("another one: %t, %v, want it to run", ran, err)
		}
	})
}

// An answer that comes after the loss of the lock starts no run. The call waits for the lock again.
func TestARunDoesNotBeginAfterTheLossOfItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		wire := s.NewWire()
		c, other := newBubbleClient(t, s, wire), newBubbleClient(t, s, s.NewWire())
		run := func(context.Context) error { return nil }
		if _, err := lockmw.Once(t.Context(), c, "warm:up", lockmw.Every(time.Hour), run); err != nil {
			t.Fatal(err)
		}
		tick := lockmw.Every(time.Hour)
		held := wire.HoldReply(tickScript("begin"))
		var wg sync.WaitGroup
		wg.Go(func() {
			<-held.Caught()
			wire.Cut()
			time.AfterFunc(40*time.Second, wire.Restore)
			ran, err := lockmw.Once(t.Context(), other, jobKey, tick, func(context.Context) error {
				held.Deliver()
				time.Sleep(5 * time.Second)
				return nil
			})
			if !ran || err != nil {
				t.Errorf("another one: %t, %v, want it to run", ran, err)
			}
		})
		if ran, err := lockmw.Once(t.Context(), c, jobKey, tick, nothing(t)); ran || err != nil {
			t.Errorf("Once: %t, %v, want false: another one has run it", ran, err)
		}
		wg.Wait()
	})
}

// tickLocks lets every tick begin.
type tickLocks struct {
	begins        func(*tickHold)
	begun, marked int
}

type tickHold struct {
	nodesHold
	locks *tickLocks
	lost  bool
}

func (l *tickLocks) Acquire(context.Context, *core.Request) (core.Hold, error) {
	return &tickHold{nodesHold: nodesHold{&nodes{}}, locks: l}, nil
}

func (h *tickHold) Expired() bool { return h.lost }

func (h *tickHold) BeginTick(context.Context, core.Tick) (core.TickAnswer, time.Time, error) {
	h.locks.begun++
	h.locks.begins(h)
	return core.TickBegun, time.Now(), nil
}

func (h *tickHold) MarkTick(context.Context, core.Tick) (again bool, err error) {
	h.locks.marked++
	return false, nil
}

// The answer may come in the same instant as the end of the context, or be read after it by a process that was stopped.
func TestAnAnswerThatComesWithTheEndOfTheContextStartsNoRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := &tickLocks{begins: func(*tickHold) { cancel() }}
	l, err := lockmw.OverLocks(n, core.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	if ran, err := lockmw.Once(ctx, l, jobKey, lockmw.Tick{At: time.Now()}, nothing(t)); ran || !errors.Is(err, context.Canceled) || n.marked != 0 {
		t.Errorf("cancelled: %t, %v", ran, err)
	}
	n.begun, n.begins = 0, func(h *tickHold) { h.lost = n.begun == 1 }
	runs := 0
	ran, err := lockmw.Once(t.Context(), l, jobKey, lockmw.Tick{At: time.Now()}, func(context.Context) error { runs++; return nil })
	if !ran || err != nil || runs != 1 || n.begun != 2 || n.marked != 1 {
		t.Errorf("lost: %t, %v after %d runs of %d that were begun, want the second", ran, err, runs, n.begun)
	}
}

// A call whose context has ended when it has the lock does not begin the tick, which would count.
func TestATickIsNotBegunAfterTheEndOfTheContext(t *testing.T) {
	l := lockmw.NewLocal()
	tick := lockmw.Tick{At: time.Now()}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := lockmw.WithObserver(&lockmw.Observer{
			Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context {
				cancel()
				return ctx
			},
		})
		if ran, err := lockmw.Once(ctx, l, jobKey, tick, nothing(t), gaveUp); ran || !errors.Is(err, context.Canceled) {
			t.Errorf("Once: %t, %v, want the end of its context", ran, err)
		}
	}
	ended := lockmw.WithObserver(&lockmw.Observer{
		Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx
		},
	})
	if ran, err := lockmw.Once(t.Context(), l, jobKey, tick, nothing(t), ended); ran || !errors.Is(err, context.Canceled) {
		t.Errorf("Once: %t, %v, want the end of the observer's context", ran, err)
	}
	if ran, err := lockmw.Once(t.Context(), l, jobKey, tick, func(context.Context) error { return nil }); !ran || err != nil {
		t.Errorf("Once: %t, %v, want it to run", ran, err)
	}
}

// A caller whose context has ended is not kept waiting for Redis, as by Unlock.
func TestTheEndOfTheContextLimitsTheWaitForTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		wire := s.NewWire()
		c := newBubbleClient(t, s, wire)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var ended time.Time
		ran, err := lockmw.Once(ctx, c, jobKey, lockmw.Every(time.Hour), func(context.Context) error {
			wire.Cut()
			ended = time.Now()
			time.AfterFunc(3*time.Second, cancel)
			return io.EOF
		})
		if took := time.Since(ended); !ran || !errors.Is(err, lockmw.ErrUnavailable) || !errors.Is(err, io.EOF) || took > 8*time.Second {
			t.Errorf("Once: %t, %v after %v, want ErrUnavailable after 5s", ran, err, took)
		}
		wire.Restore()
	})
}

// A job has an end of its own, unlike a leader.
func TestShutdownWaitsForAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		c, other := newBubbleClient(t, s, s.NewWire()), newBubbleClient(t, s, s.NewWire())
		tick := lockmw.Every(time.Hour)
		var wg sync.WaitGroup
		began := make(chan struct{})
		wg.Go(func() {
			ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(ctx context.Context) error {
				close(began)
				time.Sleep(30 * time.Second)
				return ctx.Err()
			})
			if !ran || err != nil {
				t.Errorf("Once: %t, %v", ran, err)
			}
		})
		<-began
		wg.Go(func() {
			if ran, err := lockmw.Once(t.Context(), c, jobKey, tick, nothing(t)); ran || !errors.Is(err, lockmw.ErrClosed) {
				t.Errorf("a call that waits: %t, %v, want ErrClosed", ran, err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		if err := c.Shutdown(t.Context()); err != nil || time.Since(begun) < 29*time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(begun))
		}
		wg.Wait()
		wantElsewhere(t, other, tick)
	})
}

func TestCloseEndsARunAsACrashDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		c, other := newBubbleClient(t, s, s.NewWire()), newBubbleClient(t, s, s.NewWire())
		tick := lockmw.Every(time.Hour)
		ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(ctx context.Context) error {
			go c.Close()
			<-ctx.Done()
			return nil
		})
		if !ran || !errors.Is(err, lockmw.ErrClosed) {
			t.Errorf("Once: %t, %v, want ErrClosed", ran, err)
		}
		if ran, err := lockmw.Once(t.Context(), other, jobKey, tick, func(context.Context) error { return nil }); !ran || err != nil {
			t.Errorf("another one: %t, %v, want it to run", ran, err)
		}
	})
}

func TestOnceRefusesWhatAJobCannotHave(t *testing.T) {
	local, run, tick := lockmw.NewLocal(), nothing(t), lockmw.Every(time.Hour)
	once := func(l lockmw.Locker, tick lockmw.Tick, run func(context.Context) error, opts ...lockmw.Option) func() error {
		return func() error {
			ran, err := lockmw.Once(t.Context(), l, jobKey, tick, run, opts...)
			if ran {
				t.Error("it ran")
			}
			return err
		}
	}
	held, hold, err := local.Lock(t.Context(), jobKey)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Unlock()
	for name, call := range map[string]func() error{
		"WithWait":         once(local, tick, run, lockmw.WithWait(time.Hour)),
		"WithMinHold":      once(local, tick, run, lockmw.WithMinHold(1)),
		"WithMaxHold":      once(local, tick, run, lockmw.WithMaxHold(time.Hour)),
		"WithFixedLease":   once(local, tick, run, lockmw.WithFixedLease(time.Hour)),
		"WithFailOpen":     once(local, tick, run, lockmw.WithFailOpen()),
		"WithPlace":        once(local, tick, run, lockmw.WithPlace("p", time.Minute)),
		"lease of":         once(local, tick, run, lockmw.WithLease(1)),
		"argument":         once((*lockmw.Client)(nil), tick, run),
		"is nil":           once(local, tick, nil),
		"reading":          once(local.RLocker(), tick, run),
		"instant":          once(local, lockmw.Tick{}, run),
		"within -1ns":      once(local, lockmw.Every(0), run),
		"within -30m0s":    once(local, lockmw.Every(-time.Hour), run),
		"within 1µs":       once(local, lockmw.Tick{At: time.Now(), Within: time.Microsecond}, run),
		"within 24h0m0.0":  once(local, lockmw.Tick{At: time.Now(), Within: 24*time.Hour + time.Millisecond}, run),
		"do not overlap":   func() error { _, err := lockmw.Once(held, local, jobKey, tick, run); return err },
		"within 500ns":     once(local, lockmw.Every(time.Microsecond), run),
		"within -1ns, mus": once(local, lockmw.Every(1), run),
	} {
		err := call()
		if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), `once "`+jobKey) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
	}
	if _, err := lockmw.Once(t.Context(), local, "", tick, run); !errors.Is(err, lockmw.ErrInvalidKey) {
		t.Errorf("without a key: %v", err)
	}
}

// A Locker that cannot say whether a tick was run is refused, and keeps no lock.
func TestOnceNeedsALockerThatKnowsTicks(t *testing.T) {
	unlocked := 0
	fake := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		held, hold := lockmw.NewHold(ctx, key, 1, func(context.Context) error { unlocked++; return nil })
		return held, hold, nil
	})
	n := &nodes{}
	overNodes, err := lockmw.OverLocks(n, core.Kind{})
	if err != nil {
		t.Fatal(err)
	}
	local := lockmw.NewLocal()
	dropsOptions := lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return local.Lock(ctx, key)
	})
	for name, l := range map[string]lockmw.Locker{"fake": fake, "nodes": overNodes, "without options": dropsOptions} {
		ran, err := lockmw.Once(t.Context(), l, jobKey, lockmw.Every(time.Hour), nothing(t))
		if ran || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), jobKey) {
			t.Errorf("%s: %t, %v, want ErrUnsupported", name, ran, err)
		}
	}
	if _, _, err := local.TryLock(t.Context(), jobKey); err != nil || unlocked != 1 || n.released != 1 {
		t.Errorf("locks are left: %v, %d and %d were unlocked", err, unlocked, n.released)
	}
}

func TestAnyLockThatExcludesOthersIsGoodForAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := redistest.Piped(t)
		c := newBubbleClient(t, s, s.NewWire())
		passesOn := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
			return c.Lock(ctx, key, opts...)
		})
		for i, l := range []lockmw.Locker{fairlock.New(c), rwlock.New(c), passesOn} {
			tick := lockmw.Tick{At: time.Now().Add(time.Duration(i) * time.Second)}
			if ran, err := lockmw.Once(t.Context(), l, jobKey, tick, func(context.Context) error { return nil }); !ran || err != nil {
				t.Errorf("%T: %t, %v", l, ran, err)
			}
			wantElsewhere(t, c, tick)
		}
	})
}

// A Client made for requests may fail open, or try only once: as its defaults they do not count for a job. Its lock is
// not passed on within the process.
func TestDefaultsThatAJobCannotHaveDoNotCount(t *testing.T) {
	n := &nodes{}
	l, err := lockmw.OverLocks(n, core.Kind{}, lockmw.WithFailOpen(), lockmw.WithWait(0), lockmw.WithMinHold(time.Minute),
		lockmw.WithMaxHold(time.Minute), lockmw.WithFixedLease(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = lockmw.Once(t.Context(), l, jobKey, lockmw.Tick{At: time.Now()}, nothing(t))
	r := n.requests[0]
	if r.Wait < 50*time.Second || r.Wait > time.Minute || r.MinHold != 0 || r.MaxHold != 0 || r.Fixed || r.Lease != time.Second || r.Mode != core.Fair {
		t.Errorf("the request is %+v", r)
	}
	if l, err = lockmw.OverLocks(n, core.Kind{Mode: core.Fair, OwnTicket: true}, lockmw.WithPlace("p", time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, _ = lockmw.Once(t.Context(), l, jobKey, lockmw.Tick{At: time.Now()}, nothing(t), lockmw.WithDefaults(lockmw.WithWait(0)))
	if r := n.requests[1]; r.Wait < 50*time.Second || r.Place != "" || r.KeepPlace != 0 {
		t.Errorf("the request is %+v", r)
	}
}

func TestTheLeaseOfAJobIsMadeForItsTick(t *testing.T) {
	for _, tt := range []struct {
		within, want time.Duration
		opts         []lockmw.Option
	}{
		{0, 10 * time.Second, nil},
		{time.Hour, 10 * time.Second, nil},
		{12 * time.Second, 6 * time.Second, nil},
		{500 * time.Millisecond, time.Second, nil},
		{0, time.Minute, []lockmw.Option{lockmw.WithLease(time.Minute)}},
	} {
		n := &nodes{}
		l, err := lockmw.OverLocks(n, core.Kind{})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = lockmw.Once(t.Context(), l, jobKey, lockmw.Tick{At: time.Now(), Within: tt.within}, nothing(t), tt.opts...)
		if got := n.requests[0].Lease; got != tt.want {
			t.Errorf("within %v the lease is %v, want %v", tt.within, got, tt.want)
		}
	}
}

func TestOnceWaitsNoLongerThanItsTickLasts(t *testing.T) {
	for by, want := range map[time.Duration]time.Duration{ // of the tick from now
		0: time.Minute, 30 * time.Second: 90 * time.Second, -30 * time.Second: 30 * time.Second,
		time.Hour: 2 * time.Minute, -time.Hour: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &nodes{fail: core.ErrClosed}
			l, err := lockmw.OverLocks(n, core.Kind{})
			if err != nil {
				t.Fatal(err)
			}
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

// What is less than a millisecond does not make two ticks of one.
func TestTicksAreCountedInMilliseconds(t *testing.T) {
	local := lockmw.NewLocal()
	at := time.Now().Truncate(time.Millisecond)
	if ran, err := lockmw.Once(t.Context(), local, jobKey, lockmw.Tick{At: at.Add(999 * time.Microsecond)}, func(context.Context) error { return nil }); !ran || err != nil {
		t.Fatal(ran, err)
	}
	wantElsewhere(t, local, lockmw.Tick{At: at})
	wantElsewhere(t, local, lockmw.Tick{At: at.In(time.FixedZone("elsewhere", 3600))})
}

// A call that waits for a job of its own process waits for no mistake.
func TestAWaitForAJobOfTheProcessIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log usertest.Output
		s := redistest.Piped(t)
		c := newBubbleClient(t, s, s.NewWire(), lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := lockmw.Once(t.Context(), c, jobKey, lockmw.Every(time.Hour), func(context.Context) error {
					time.Sleep(30 * time.Second)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if said := log.String(); said != "" {
			t.Errorf("logged: %s", said)
		}
	})
}
