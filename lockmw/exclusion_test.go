package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// passing passes options on to l, as a Locker of the user's may do.
func passing(l lockmw.Locker) lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, key string, opts ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return l.Lock(ctx, key, opts...)
	})
}

// dropping does not.
func dropping(l lockmw.Locker) lockmw.Locker {
	return lockmw.LockerFunc(func(ctx context.Context, key string, _ ...lockmw.Option) (context.Context, *lockmw.Hold, error) {
		return l.Lock(ctx, key)
	})
}

// sharers are Lockers that let several callers hold a key.
func sharers(t *testing.T) map[string]lockmw.Locker {
	t.Helper()
	local, client := lockmw.NewLocal(), usertest.Client(t, redistest.Mini(t))
	base := map[string]lockmw.Locker{
		"a local lock for reading":    local.RLocker(),
		"a lock for reading":          rwlock.New(client).RLocker(),
		"a semaphore":                 semaphore.New(client, 3),
		"a semaphore with one permit": semaphore.New(client, 1),
		"a local semaphore":           semaphore.NewLocal(local, 2),
	}
	all := make(map[string]lockmw.Locker)
	for name, l := range base {
		all[name] = l
		all[name+", wrapped"] = passing(l)
		all[name+", without options"] = dropping(l)
	}
	return all
}

func TestNobodyLeadsByALockThatOthersShare(t *testing.T) {
	for name, l := range sharers(t) {
		led := func(context.Context) error {
			t.Errorf("%s: it led", name)
			return nil
		}
		err := lockmw.Lead(t.Context(), l, leadKey, led)
		if !errors.Is(err, lockmw.ErrInvalidOption) || !strings.Contains(err.Error(), `lead "`+leadKey) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
		if _, hold, err := l.Lock(t.Context(), leadKey, lockmw.WithWait(0)); err != nil {
			t.Errorf("%s: a lock is left: %v", name, err)
		} else {
			usertest.Unlock(t, hold)
		}
	}
}

func TestNoJobRunsByALockThatOthersShare(t *testing.T) {
	for name, l := range sharers(t) {
		want := lockmw.ErrInvalidOption
		if strings.HasSuffix(name, "without options") {
			want = errors.ErrUnsupported
		}
		ran, err := lockmw.Once(t.Context(), l, jobKey, lockmw.Every(time.Hour), nothing(t))
		if ran || !errors.Is(err, want) {
			t.Errorf("%s: %t, %v, want %v", name, ran, err, want)
		}
	}
}

// All callers with that context have the lock by the same hold.
func TestNobodyLeadsByAHoldOfItsContext(t *testing.T) {
	local := lockmw.NewLocal()
	for name, l := range map[string]lockmw.Locker{"the Locker": local, "wrapped": passing(local), "without options": dropping(local)} {
		held, hold := usertest.Lock(t, t.Context(), local, leadKey)
		err := lockmw.Lead(held, l, leadKey, func(context.Context) error {
			t.Errorf("%s: it led", name)
			return nil
		})
		if !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", name, err)
		}
		usertest.Unlock(t, hold)
	}
}

// A Locker without options may fail open, and then everybody would lead.
func TestNobodyLeadsWithoutALock(t *testing.T) {
	fails := &nodes{fail: lockmw.ErrUnavailable}
	l := overLocks(t, fails, core.Kind{}, lockmw.WithFailOpen())
	ctx, cancel := context.WithCancel(t.Context())
	fails.meanwhile = func(core.Events) {
		if len(fails.requests) == 2 {
			cancel()
		}
	}
	err := lockmw.Lead(ctx, dropping(l), leadKey, func(context.Context) error {
		t.Error("it led")
		return nil
	})
	if !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("Lead: %v, want ErrUnavailable", err)
	}
}
