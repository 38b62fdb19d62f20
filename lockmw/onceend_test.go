package lockmw_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

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
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		wire, c, other := warmReplicas(t, s)
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
		wantRun(t, "another one", other, tick)
	})
}

// An answer that comes after the loss of the lock starts no run. The call waits for the lock again.
func TestARunDoesNotBeginAfterTheLossOfItsLock(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		wire, c, other := warmReplicas(t, s)
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
	l := overLocks(t, n, core.Kind{})
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
	wantRun(t, "the tick", l, tick)
}

// A caller whose context has ended is not kept waiting for Redis, as by Unlock.
func TestTheEndOfTheContextLimitsTheWaitForTheMark(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		c := usertest.ClientOf(t, s.NewClient(t, wire.Use))
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
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		c, other := usertest.Client(t, s), usertest.Client(t, s)
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
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		c, other := usertest.Client(t, s), usertest.Client(t, s)
		tick := lockmw.Every(time.Hour)
		ran, err := lockmw.Once(t.Context(), c, jobKey, tick, func(ctx context.Context) error {
			go c.Close()
			<-ctx.Done()
			return nil
		})
		if !ran || !errors.Is(err, lockmw.ErrClosed) {
			t.Errorf("Once: %t, %v, want ErrClosed", ran, err)
		}
		wantRun(t, "another one", other, tick)
	})
}
