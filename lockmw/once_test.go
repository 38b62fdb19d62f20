package lockmw_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

const jobKey = "report:hourly"

// onReplicas runs test in a bubble: with Clients of processes of their own, and with calls that share a Local.
func onReplicas(t *testing.T, test func(t *testing.T, replica func() lockmw.Locker)) {
	t.Run("redis", func(t *testing.T) {
		usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
			test(t, func() lockmw.Locker { return usertest.Client(t, s) })
		})
	})
	t.Run("local", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := lockmw.NewLocal()
			test(t, func() lockmw.Locker { return l })
		})
	})
}

// nothing is a run that must not be called.
func nothing(t *testing.T) func(context.Context) error {
	return func(context.Context) error {
		t.Error("it runs")
		return nil
	}
}

// wantRun checks that a replica runs the tick.
func wantRun(t *testing.T, what string, l lockmw.Locker, tick lockmw.Tick) {
	t.Helper()
	if ran, err := lockmw.Once(t.Context(), l, jobKey, tick, func(context.Context) error { return nil }); !ran || err != nil {
		t.Errorf("%s: %t, %v, want it to run", what, ran, err)
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
							t.Error("two run at the same time")
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

// A tick has been run, whatever its run did.
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
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		tick := lockmw.Every(time.Hour)
		var ended, again time.Time
		wire := s.NewWire()
		crashes, follows, late := usertest.ClientOf(t, s.NewClient(t, wire.Use)), usertest.Client(t, s), usertest.Client(t, s)
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

// A call that waits for a job of its own process waits for no mistake.
func TestAWaitForAJobOfTheProcessIsNotLogged(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var log usertest.Output
		c := usertest.Client(t, s, lockmw.WithLogger(log.Logger()))
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
