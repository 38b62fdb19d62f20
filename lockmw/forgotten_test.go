package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

const forgotten = "a hold was forgotten"

// An amnesia is where holds are forgotten: a Client that logs, another one, and time that passes with collections of garbage.
type amnesia struct {
	*testing.T
	server        *redistest.Server
	client, other *lockmw.Client
	log           *usertest.Output
}

const lease = 3 * time.Second

type valueKey struct{}

func withAmnesia(t *testing.T, test func(a *amnesia), opts ...lockmw.ClientOption) {
	t.Helper()
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		a := &amnesia{T: t, server: s, log: &usertest.Output{}}
		opts := append(opts, lockmw.WithLease(lease), lockmw.WithLogger(a.log.Logger()))
		a.client, a.other = usertest.Client(t, s, opts...), usertest.Client(t, s)
		test(a)
	})
}

// lines returns what was logged of forgotten holds.
func (a *amnesia) lines() (lines []string) {
	for line := range strings.Lines(a.log.String()) {
		if strings.Contains(line, forgotten) {
			lines = append(lines, line)
		}
	}
	return lines
}

// pass lets n thirds of a lease pass in the bubble.
func (a *amnesia) pass(n int) {
	for range n {
		runtime.GC()
		time.Sleep(lease / 3)
		synctest.Wait()
	}
}

// until lets time pass until cond is met.
func (a *amnesia) until(what string, cond func() bool) {
	a.Helper()
	for range 60 {
		if cond() {
			return
		}
		a.pass(1)
	}
	a.Fatalf("not in 20 leases: %s; logged %q", what, a.log.String())
}

// free waits until the other Client gets the key.
func (a *amnesia) free(key string) {
	a.Helper()
	a.until(key+" becomes free", func() bool {
		_, hold, err := a.other.TryLock(a.Context(), key)
		if err == nil {
			err = hold.Unlock()
		} else if errors.Is(err, lockmw.ErrBusy) {
			return false
		}
		if err != nil {
			a.Error(err)
		}
		return true
	})
}

func (a *amnesia) busy(key string) {
	a.Helper()
	_, hold, err := a.other.TryLock(a.Context(), key)
	if !errors.Is(err, lockmw.ErrBusy) {
		a.Errorf("%s is not held any more: %v", key, err)
	}
	if hold != nil {
		_ = hold.Unlock()
	}
}

func take(a *amnesia, ctx context.Context, l lockmw.Locker, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold) {
	return usertest.Lock(a, ctx, l, key, opts...)
}

func TestManyForgottenHoldsHaveOneLine(t *testing.T) {
	withAmnesia(t, func(a *amnesia) {
		for i := range 50 {
			ctx, cancel := context.WithCancel(a.Context())
			_, _ = take(a, ctx, a.client, fmt.Sprint("lost:", i))
			cancel()
		}
		a.free("lost:49")
		if lines := a.lines(); len(lines) != 1 {
			a.Errorf("50 forgotten holds have %d lines, want one", len(lines))
		}
	})
}

func TestAForgottenHoldEndsWithItsLease(t *testing.T) {
	cancellable := func(a *amnesia) context.Context {
		ctx, cancel := context.WithCancel(a.Context())
		a.Cleanup(cancel) // so that it is reachable
		return ctx
	}
	for name, test := range map[string]struct {
		lines  int
		forget func(a *amnesia)
	}{
		"plain":   {1, func(a *amnesia) { take(a, a.Context(), a.client, "item:7") }},
		"fair":    {1, func(a *amnesia) { take(a, a.Context(), fairlock.New(a.client), "item:7") }},
		"writing": {1, func(a *amnesia) { take(a, a.Context(), rwlock.New(a.client), "item:7") }},
		"reading": {1, func(a *amnesia) { take(a, a.Context(), rwlock.New(a.client).RLocker(), "item:7") }},
		"readers that share a lease": {1, func(a *amnesia) {
			for range 3 {
				take(a, a.Context(), rwlock.New(a.client).RLocker(), "item:7")
			}
		}},
		"downgraded": {1, func(a *amnesia) {
			l := rwlock.New(a.client)
			_, hold := take(a, a.Context(), l, "item:7")
			if err := l.Downgrade(a.Context(), hold); err != nil {
				a.Error(err)
			}
		}},
		"with a place": {1, func(a *amnesia) {
			take(a, a.Context(), fairlock.New(a.client), "item:7", lockmw.WithPlace("p", time.Hour))
		}},
		"with a maximum":        {1, func(a *amnesia) { take(a, a.Context(), a.client, "item:7", lockmw.WithMaxHold(time.Hour)) }},
		"with a fixed lease":    {0, func(a *amnesia) { take(a, a.Context(), a.client, "item:7", lockmw.WithFixedLease(lease)) }},
		"its context is waited": {1, func(a *amnesia) { ctx, _ := take(a, cancellable(a), a.client, "item:7"); ctx.Done() }},
		"derived contexts, ended": {1, func(a *amnesia) {
			ctx, _ := take(a, cancellable(a), a.client, "item:7")
			below, cancel := context.WithTimeout(context.WithValue(ctx, valueKey{}, 1), time.Hour)
			context.AfterFunc(below, func() {})
			cancel()
		}},
		"nested": {1, func(a *amnesia) {
			ctx, _ := take(a, cancellable(a), a.client, "item:7")
			ctx, _ = take(a, ctx, a.client, "item:7", lockmw.WithMaxHold(10*time.Hour))
			ctx, _ = take(a, ctx, a.client, "item:7")
			ctx.Done()
		}},
		"nested, and the outer one unlocked": {1, func(a *amnesia) {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			take(a, ctx, a.client, "item:7")
			usertest.Unlock(a, hold)
		}},
		"another key within": {1, func(a *amnesia) {
			ctx, _ := take(a, a.Context(), a.client, "item:7")
			ctx, _ = take(a, ctx, a.client, "item:8")
			ctx.Done()
		}},
		"LockAll": {1, func(a *amnesia) {
			if _, _, err := lockmw.LockAll(a.Context(), a.client, []string{"item:7", "item:8", "item:9"}); err != nil {
				a.Error(err)
			}
		}},
		"observed, another key within": {1, func(a *amnesia) {
			observed := lockmw.WithObserver(&lockmw.Observer{Renewed: func(context.Context, lockmw.Attempt, error) {}})
			ctx, _ := take(a, a.Context(), a.client, "item:7", observed)
			take(a, ctx, a.client, "item:8", observed)
		}},
		"used after a while": {1, func(a *amnesia) {
			ctx, hold := take(a, a.Context(), a.client, "item:7")
			a.pass(3)
			if _, again := take(a, ctx, a.client, "item:7", lockmw.WithWait(0)); again.Unlock() != nil || hold.Extend(ctx, lease) != nil {
				a.Error("the hold has ended")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withAmnesia(t, func(a *amnesia) {
				apart(func() { test.forget(a) })
				a.busy("item:7")
				a.until("the holds are forgotten", func() bool { return len(a.lines()) >= test.lines })
				for _, key := range []string{"item:7", "item:8", "item:9"} {
					a.free(key)
				}
				if got := a.lines(); len(got) != test.lines {
					t.Errorf("%d lines, want %d: %q", len(got), test.lines, got)
				}
				ctx, cancel := context.WithTimeout(a.Context(), lease)
				defer cancel()
				if err := a.client.Shutdown(ctx); err != nil { // it waits for holds
					t.Error(err)
				}
			})
		})
	}
}

// apart calls f, of which nothing is left on the stack.
//
//go:noinline
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func TestAForgottenReaderLeavesTheLeaseToOthers(t *testing.T) {
	withAmnesia(t, func(a *amnesia) {
		l := rwlock.New(a.client).RLocker()
		_, before := take(a, a.Context(), l, "item:7")
		var lost atomic.Int64
		apart(func() {
			take(a, a.Context(), l, "item:7", lockmw.WithObserver(&lockmw.Observer{
				Lost: func(_ context.Context, _ lockmw.Attempt, err error) {
					if errors.Is(err, lockmw.ErrLost) && strings.Contains(err.Error(), "forgotten") {
						lost.Add(1)
					}
				},
			}))
		})
		_, after := take(a, a.Context(), l, "item:7")
		a.until("the loss is observed", func() bool { return lost.Load() == 1 })
		a.pass(9)
		a.busy("item:7")
		for _, h := range []*lockmw.Hold{before, after} {
			usertest.Unlock(t, h)
		}
		a.free("item:7")
		if got := a.lines(); len(got) != 1 {
			t.Errorf("logged %q", got)
		}
	})
}

// A reader may come to a lease that has only forgotten holds.
func TestAReaderThatJoinsForgottenOnesIsRenewed(t *testing.T) {
	withAmnesia(t, func(a *amnesia) {
		l := rwlock.New(a.client).RLocker()
		apart(func() { take(a, a.Context(), l, "item:7") })
		a.until("the hold is forgotten", func() bool { return len(a.lines()) == 1 })
		begun := time.Now()
		_, hold := take(a, a.Context(), l, "item:7")
		if waited := time.Since(begun); waited > lease/10 {
			t.Errorf("it waited for %v", waited)
		}
		a.pass(12)
		usertest.Unlock(t, hold)
	})
}

// The work may still be running, and may have nothing of the hold but the channel of its context.
func TestAForgottenHoldIsNotLostAtOnceAndEndsWhatWaitsForIt(t *testing.T) {
	withAmnesia(t, func(a *amnesia) {
		var ended time.Time
		apart(func() {
			ctx, _ := take(a, a.Context(), a.client, "item:7")
			a.pass(2) // so that the first renewal was before
			done := ctx.Done()
			go func() { <-done; ended = time.Now() }()
		})
		a.until("the hold is forgotten", func() bool { return len(a.lines()) == 1 })
		seen := time.Now()
		a.busy("item:7")
		a.free("item:7")
		synctest.Wait()
		if after := ended.Sub(seen); after < lease/3 || after > lease {
			t.Errorf("the context ended %v after that", after)
		}
	})
}

func TestAForgottenHoldKeepsItsKeyForItsMinimum(t *testing.T) {
	withAmnesia(t, func(a *amnesia) {
		begun := time.Now()
		apart(func() { take(a, a.Context(), a.client, "item:7", lockmw.WithMinHold(4*lease)) })
		a.free("item:7")
		if after := time.Since(begun); after < 4*lease {
			t.Errorf("it is free after %v", after)
		}
	})
}

func TestTheLogSaysWhichHoldWasForgotten(t *testing.T) {
	for name, opts := range map[string][]lockmw.ClientOption{"": nil, "takeAndForget": {lockmw.WithStacks()}} {
		withAmnesia(t, func(a *amnesia) {
			apart(func() { takeAndForget(a) })
			a.until("the hold is forgotten", func() bool { return len(a.lines()) == 1 })
			for _, want := range []string{"level=WARN", "key=item:7", "label=req-7", "mode=fair", "token=", "since=", "held=", "ends=", name} {
				if line := a.lines()[0]; !strings.Contains(line, want) {
					t.Errorf("%q lacks %q", line, want)
				}
			}
			if line := a.lines()[0]; name == "" && strings.Contains(line, "taken_by") {
				t.Errorf("%q says where it was taken", line)
			}
		}, opts...)
	}
}

//go:noinline
func takeAndForget(a *amnesia) {
	take(a, a.Context(), fairlock.New(a.client), "item:7", lockmw.WithLabel("req-7"))
}

// Without Redis there is nothing to renew, and a hold of NewHold is its backend's.
func TestAForgottenHoldWithoutALeaseIsNotLogged(t *testing.T) {
	withAmnesia(t, func(a *amnesia) {
		apart(func() { lockmw.NewHold(a.Context(), "item:7", 1, func(context.Context) error { return nil }) })
		a.pass(12)
		if got := a.lines(); len(got) > 0 {
			t.Errorf("logged %q", got)
		}
	})
}
