package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/fairlock"
	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/lockmw"
	"github.com/lockmw/go/redlock"
	"github.com/lockmw/go/rwlock"
	"github.com/lockmw/go/semaphore"
)

func TestAFirstRunNeedsTwoRoundTripsAndARepetitionOne(t *testing.T) {
	s := redistest.Mini(t)
	rdb := s.NewClient(t)
	var mu sync.Mutex
	var scripts []string
	rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		mu.Lock()
		for _, cmd := range cmds {
			probes := strings.Contains(fmt.Sprint(cmd.Args()), ":probe:") // which is not for a call
			if name := cmd.Name(); !probes && (name == "evalsha" || name == "eval") {
				scripts = append(scripts, name)
			}
		}
		mu.Unlock()
		return send()
	}))
	locks, err := lockmw.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { isError(t, locks.Close(), nil) }()
	// A call that may wait is not sent again because this process stood still for a moment.
	once, shop := idempotency.New(locks, idempotency.WithWait(lockmw.Forever)), &shop{}
	warm := idempotency.Key{Scope: "other", ID: "warm"}
	_, _ = idempotency.Do(t.Context(), once, warm, order{"tea"}, idempotency.Refuse, shop.order)
	mu.Lock()
	scripts = nil
	mu.Unlock()
	for i, want := range []int{2, 3} {
		if _, err := shop.do(once, "tea", idempotency.Refuse); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if len(scripts) != want {
			t.Errorf("after call %d there were the commands %v, want %d", i+1, scripts, want)
		}
		mu.Unlock()
	}
}

func TestRedisHasNoKeyScopeOrRequest(t *testing.T) {
	s := redistest.Mini(t)
	once := idempotency.New(newClient(t, s))
	k := idempotency.Key{Scope: "secret-scope", ID: "secret-id"}
	_, _ = idempotency.Do(t.Context(), once, k, order{"secret-tea"}, idempotency.Refuse, (&shop{}).order)
	if dump := s.Mini.Dump(); strings.Contains(dump, "secret") || !strings.Contains(dump, ":record") {
		t.Errorf("Redis has:\n%s", dump)
	}
}

func TestOtherLockers(t *testing.T) {
	s := redistest.Mini(t)
	c, local := newClient(t, s), lockmw.NewLocal()
	over := redlock.New([]*lockmw.Client{c})
	t.Cleanup(func() { isError(t, over.Close(), nil) })
	foreign := lockmw.LockerFunc(c.Lock)
	for _, l := range []lockmw.Locker{semaphore.New(c, 1), rwlock.New(c).RLocker(), local.RLocker(), over, foreign} {
		if err := refusal(l); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%T: %v", l, err)
		}
	}
	for _, o := range []lockmw.Option{
		lockmw.WithFailOpen(), lockmw.WithMinHold(time.Second), lockmw.WithFixedLease(time.Second), lockmw.WithPlace("a", time.Second), lockmw.WithWeight(1),
		lockmw.WithLease(time.Nanosecond), lockmw.WithLease(13 * time.Hour),
	} {
		if err := refusal(c, idempotency.WithLockOptions(o)); !errors.Is(err, lockmw.ErrInvalidOption) {
			t.Errorf("the error is %v", err)
		}
	}
	isError(t, refusal(nil), lockmw.ErrInvalidOption)
	isError(t, refusal(c, idempotency.WithTTL(5*time.Minute)), lockmw.ErrInvalidOption)
	defaults, err := lockmw.New(s.NewClient(t), lockmw.WithFailOpen(), lockmw.WithMinHold(time.Hour), lockmw.WithFixedLease(time.Minute))
	isError(t, err, nil)
	t.Cleanup(func() { isError(t, defaults.Close(), nil) })
	for _, l := range []lockmw.Locker{fairlock.New(c), rwlock.New(c), defaults} {
		once, shop := idempotency.New(l), &shop{}
		k := idempotency.Key{Scope: "kinds", ID: fmt.Sprintf("%T", l)}
		for range 2 {
			got, err := idempotency.Do(t.Context(), once, k, order{"tea"}, idempotency.Refuse, shop.order)
			if err != nil || got.Number != 1 {
				t.Errorf("%T: %v, %v", l, got, err)
			}
		}
	}
	if keys := s.Mini.Keys(); slices.ContainsFunc(keys, func(k string) bool { return strings.HasSuffix(k, "}") }) {
		t.Errorf("locks are still held: %v", keys)
	}
}
