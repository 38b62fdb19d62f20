package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
)

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
	held, hold := usertest.Lock(t, t.Context(), local, jobKey)
	defer hold.Unlock()
	for name, call := range map[string]func() error{
		"WithWait":       once(local, tick, run, lockmw.WithWait(time.Hour)),
		"WithMinHold":    once(local, tick, run, lockmw.WithMinHold(1)),
		"WithMaxHold":    once(local, tick, run, lockmw.WithMaxHold(time.Hour)),
		"WithFixedLease": once(local, tick, run, lockmw.WithFixedLease(time.Hour)),
		"WithFailOpen":   once(local, tick, run, lockmw.WithFailOpen()),
		"WithPlace":      once(local, tick, run, lockmw.WithPlace("p", time.Minute)),
		"lease of":       once(local, tick, run, lockmw.WithLease(1)),
		"argument":       once((*lockmw.Client)(nil), tick, run),
		"is nil":         once(local, tick, nil),
		"reading":        once(local.RLocker(), tick, run),
		"Tick.At":        once(local, lockmw.Tick{}, run),
		"of Every":       once(local, lockmw.Every(0), run),
		"Every is too":   once(local, lockmw.Every(-time.Hour), run),
		"Tick.Within":    once(local, lockmw.Tick{At: time.Now(), Within: -time.Hour}, run),
		"is 1µs":         once(local, lockmw.Tick{At: time.Now(), Within: time.Microsecond}, run),
		"is 24h0m0.0":    once(local, lockmw.Tick{At: time.Now(), Within: 24*time.Hour + time.Millisecond}, run),
		"do not overlap": func() error { _, err := lockmw.Once(held, local, jobKey, tick, run); return err },
		"at least 2ms":   once(local, lockmw.Every(2*time.Millisecond-1), run),
		"the period of":  once(local, lockmw.Every(1), run),
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
	overNodes := overLocks(t, n, core.Kind{})
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
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		c := usertest.Client(t, s)
		passesOn := lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
			return c.Lock(ctx, key, opts...)
		})
		for i, l := range []lockmw.Locker{fairlock.New(c), rwlock.New(c), passesOn} {
			tick := lockmw.Tick{At: time.Now().Add(time.Duration(i) * time.Second)}
			wantRun(t, fmt.Sprintf("%T", l), l, tick)
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
		l := overLocks(t, n, core.Kind{})
		_, _ = lockmw.Once(t.Context(), l, jobKey, lockmw.Tick{At: time.Now(), Within: tt.within}, nothing(t), tt.opts...)
		if got := n.requests[0].Lease; got != tt.want {
			t.Errorf("within %v the lease is %v, want %v", tt.within, got, tt.want)
		}
	}
}
