package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

// Options that contradict each other fail where they are given, and not with each call. The error names both values.
func TestOptionsThatContradictEachOtherAreRefusedWhereTheyAreGiven(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	locks := usertest.ClientOf(t, rdb, lockmw.WithQuarantine(10*time.Second), lockmw.WithLease(5*time.Second))
	client := func(opts ...lockmw.ClientOption) func() error {
		return func() error {
			c, err := lockmw.New(rdb, append(opts, lockmw.WithQuarantine(10*time.Second))...)
			if err == nil {
				_ = c.Close()
			}
			return err
		}
	}
	panics := func(f func()) func() error { return func() error { return usertest.Recovered(f) } }
	job := func(context.Context, string) error { return nil }
	lease := lockmw.WithLease(time.Minute)
	for _, tt := range []struct {
		what  string
		do    func() error
		value string
	}{
		{"New with the default lease", client(), "30s"},
		{"New with a lease", client(lease), "1m0s"},
		{"New with a fixed lease", client(lockmw.WithFixedLease(time.Minute)), "1m0s"},
		{"New with a minimum hold", client(lockmw.WithLease(time.Second), lockmw.WithMinHold(time.Minute)), "1m0s"},
		{"New with a lease that is no shorter", client(lockmw.WithLease(10 * time.Second)), "lease of 10s"},
		{"fairlock.New", panics(func() { fairlock.New(locks, lease) }), "1m0s"},
		{"rwlock.New", panics(func() { rwlock.New(locks, lease) }), "1m0s"},
		{"semaphore.New", panics(func() { semaphore.New(locks, 2, lease) }), "1m0s"},
		{"WithLock", panics(func() { lockmw.WithLock(locks, lockmw.By[string]("k", func(s string) string { return s }), job, lease) }), "1m0s"},
		{"Lock", func() error { _, _, err := locks.Lock(t.Context(), "k", lease); return err }, "1m0s"},
		{"Lock with a minimum hold", func() error { _, _, err := locks.Lock(t.Context(), "k", lockmw.WithMinHold(time.Minute)); return err }, "1m0s"},
		{"LockAll", func() error { _, _, err := lockmw.LockAll(t.Context(), locks, []string{"a", "b"}, lease); return err }, "1m0s"},
		{"Lead", func() error { return lockmw.Lead(t.Context(), locks, leadKey, untilEnd, lease) }, "1m0s"},
		{"Once", func() error {
			_, err := lockmw.Once(t.Context(), locks, jobKey, lockmw.Every(time.Second), nothing(t), lease)
			return err
		}, "1m0s"},
		{"Once with a tick", func() error {
			_, err := lockmw.Once(t.Context(), locks, jobKey, lockmw.Tick{At: time.Now(), Within: 5 * time.Second}, nothing(t))
			return err
		}, "within 5s"},
	} {
		err := tt.do()
		if !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("%s: %v, want ErrInvalidOption", tt.what, err)
		} else if text := err.Error(); !strings.Contains(text, tt.value) || !strings.Contains(text, "WithQuarantine(10s)") {
			t.Errorf("%s: %v, which does not name %q and the quarantine", tt.what, err, tt.value)
		}
	}
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("something is written: %v", keys)
	}
}

func TestOptionsThatGoTogetherAreNotRefused(t *testing.T) {
	rdb := redistest.Mini(t).NewClient(t)
	for _, opts := range [][]lockmw.ClientOption{
		{lockmw.WithQuarantine(31 * time.Second)},
		{lockmw.WithQuarantine(10 * time.Second), lockmw.WithLease(5 * time.Second), lockmw.WithMinHold(9 * time.Second)},
		{lockmw.WithLease(time.Hour), lockmw.WithMaxHold(time.Second)}, // it ends sooner
		{lockmw.WithFixedLease(time.Second), lockmw.WithMaxHold(time.Hour)},
	} {
		c, err := lockmw.New(rdb, opts...)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = c.Close()
	}
	if _, err := lockmw.NewInspector(rdb, lockmw.WithQuarantine(10*time.Second)); err != nil {
		t.Errorf("an Inspector, which has no leases: %v", err)
	}
}

// limitedNodes are locks that can be kept taken for a minute.
type limitedNodes struct{ nodes }

func (*limitedNodes) CheckTimes(lease, minHold time.Duration) error {
	if max(lease, minHold) > time.Minute {
		return lockmw.ErrInvalidOption
	}
	return nil
}

// A nested call also keeps the key taken.
func TestAMinimumHoldOfANestedCallIsCheckedAsOthersAre(t *testing.T) {
	if _, err := lockmw.OverLocks(&limitedNodes{}, core.Kind{}, lockmw.WithMinHold(time.Hour)); !errors.Is(err, lockmw.ErrInvalidOption) {
		t.Errorf("OverLocks: %v", err)
	}
	locks := overLocks(t, &limitedNodes{}, core.Kind{})
	held, hold := usertest.Lock(t, t.Context(), locks, "k")
	defer usertest.Unlock(t, hold)
	if _, _, err := locks.Lock(held, "k", lockmw.WithMinHold(time.Hour)); !errors.Is(err, lockmw.ErrInvalidOption) {
		t.Errorf("the nested call: %v, want ErrInvalidOption", err)
	}
	_, nested := usertest.Lock(t, held, locks, "k", lockmw.WithMinHold(time.Minute))
	usertest.Unlock(t, nested)
}
