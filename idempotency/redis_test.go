package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
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
			if name := cmd.Name(); name == "evalsha" || name == "eval" {
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
	once, shop := idempotency.New(locks), &shop{}
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

// takeLock deletes the lock of key from Redis, as if its lease had expired.
func takeLock(t *testing.T, s *redistest.Server) {
	t.Helper()
	if n, err := s.NewClient(t).Del(t.Context(), "idem:{"+key.LockKey()+"}").Result(); n != 1 || err != nil {
		t.Errorf("deleted %d keys: %v", n, err)
	}
}

func TestALostLockDoesNotLoseTheAnswer(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		c := newClient(t, s)
		once, shop := idempotency.New(c), &shop{}
		_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
			takeLock(t, s)
			return shop.order(ctx, o)
		})
		isError(t, err, nil)
		if got, err := shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
			t.Errorf("a repetition got %v, %v", got, err)
		}
	})
}

func TestARunThatWasReplacedAtARealServerIsNotRecorded(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		first, second := idempotency.New(newClient(t, s)), idempotency.New(newClient(t, s))
		shop := &shop{}
		_, err := idempotency.Do(t.Context(), first, key, order{"tea"}, idempotency.RunAgain, func(context.Context, order) (receipt, error) {
			takeLock(t, s)
			got, err := shop.do(second, "tea", idempotency.RunAgain)
			if err != nil || got.Number != 1 {
				t.Errorf("the second run got %v, %v", got, err)
			}
			return receipt{100}, nil
		})
		isError(t, err, idempotency.ErrNotRecorded)
		if got, err := shop.do(first, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
			t.Errorf("a repetition got %v, %v, want the answer of the second run", got, err)
		}
	})
}

func TestAnAnswerThatWasFoundOutIsFinal(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		c := newClient(t, s)
		once, shop := idempotency.New(c), &shop{}
		found := idempotency.Recover(func(context.Context, idempotency.Unfinished) (idempotency.Answer, error) {
			return idempotency.Result(receipt{7})
		})
		_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
			takeLock(t, s)
			if got, err := shop.do(once, "tea", found); err != nil || got.Number != 7 {
				t.Errorf("the call that finds the answer out got %v, %v", got, err)
			}
			return receipt{1}, nil
		})
		isError(t, err, idempotency.ErrNotRecorded)
		if got, err := shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 7 {
			t.Errorf("a repetition got %v, %v", got, err)
		}
	})
}

func TestARunThatEndsWhileItsAnswerIsFoundOutWins(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		c := newClient(t, s)
		once, shop := idempotency.New(c), &shop{}
		_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
			run, _ := idempotency.FromContext(ctx)
			takeLock(t, s)
			found := idempotency.Recover(func(context.Context, idempotency.Unfinished) (idempotency.Answer, error) {
				own, err := idempotency.Result(receipt{1})
				if err == nil {
					err = run.Keep(own)
				}
				isError(t, err, nil)
				return idempotency.Result(receipt{7})
			})
			if got, err := shop.do(once, "tea", found); err != nil || got.Number != 1 {
				t.Errorf("the call that finds the answer out got %v, %v, want the answer of the run", got, err)
			}
			return receipt{1}, nil
		})
		isError(t, err, idempotency.ErrNotRecorded) // it has ended before
	})
}

func TestRunsThatNeverReturnAreLimited(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		once := idempotency.New(newClient(t, s))
		for i := range 3 {
			run, err := once.Begin(t.Context(), key, key.Fingerprint(), idempotency.RunAgain)
			if err != nil || run.Attempt() != i+1 {
				t.Fatalf("run %d: %v", i+1, err)
			}
			hold, _ := lockmw.FromContext(run.Context()) // it crashes: nothing ends the run
			takeLock(t, s)
			defer func() { _ = hold.Unlock() }()
		}
		_, err := once.Begin(t.Context(), key, key.Fingerprint(), idempotency.RunAgain)
		isError(t, err, idempotency.ErrUnknownOutcome)
		if e, _ := errors.AsType[*idempotency.Error](err); e.Unfinished == nil || e.Unfinished.Attempts != 3 {
			t.Errorf("%+v", e.Unfinished)
		}
	})
}

func TestAnUnavailableServerRunsNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		c, err := lockmw.New(s.NewClient(t, wire.Use), lockmw.WithPrefix("idem"), lockmw.WithFailOpen())
		isError(t, err, nil)
		defer func() {
			wire.Restore()
			isError(t, c.Close(), nil)
		}()
		once, shop := idempotency.New(c, idempotency.WithWait(0)), &shop{}
		wire.Cut()
		_, err = shop.do(once, "tea", idempotency.RunAgain)
		isError(t, err, lockmw.ErrUnavailable)
		if shop.count() != 0 {
			t.Errorf("the work ran %d times", shop.count())
		}
		wire.Restore()
		got, err := shop.do(idempotency.New(c), "tea", idempotency.Refuse)
		if err != nil || got.Number != 1 {
			t.Errorf("after the outage: %v, %v", got, err)
		}
	})
}

func TestALostAnswerOfTheBeginIsNoUnknownOutcome(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rdb := s.NewClient(t)
		var lose sync.Once
		rdb.AddHook(redistest.Hook(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
			err := send()
			if err == nil && strings.Contains(fmt.Sprint(cmds), key.LockKey()) {
				lose.Do(func() {
					if n := s.NewClient(t).Exists(t.Context(), "idem:{"+key.LockKey()+"}:record").Val(); n != 1 {
						t.Errorf("the record is not open: %v", err)
					}
					cancel()
					err = io.EOF
					for _, cmd := range cmds {
						cmd.SetErr(err)
					}
				})
			}
			return err
		}))
		c, err := lockmw.New(rdb, lockmw.WithPrefix("idem"))
		isError(t, err, nil)
		defer func() { isError(t, c.Close(), nil) }()
		once, shop := idempotency.New(c), &shop{}
		_, err = idempotency.Do(ctx, once, key, order{"tea"}, idempotency.Refuse, shop.order)
		isError(t, err, context.Canceled)
		var got receipt
		for end := time.Now().Add(time.Minute); time.Now().Before(end); { // until the run is void
			if got, err = shop.do(once, "tea", idempotency.Refuse); !errors.Is(err, idempotency.ErrUnknownOutcome) {
				break
			}
		}
		if err != nil || got.Number != 1 || shop.count() != 1 {
			t.Errorf("got %v, %v after %d runs", got, err, shop.count())
		}
	})
}

func TestALostAnswerOfTheEndIsAskedForAgain(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		c, err := lockmw.New(s.NewClient(t, wire.Use), lockmw.WithPrefix("idem"))
		isError(t, err, nil)
		defer func() { isError(t, c.Close(), nil) }()
		once, shop := idempotency.New(c), &shop{}
		_, err = idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
			wire.LoseReply("eval", key.LockKey()+"}:record", "keep")
			return shop.order(ctx, o)
		})
		isError(t, err, nil)
		if got, err := shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
			t.Errorf("a repetition got %v, %v", got, err)
		}
	})
}

func TestAnAnswerThatCannotBeRecordedIsNotReported(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		wire := s.NewWire()
		c, err := lockmw.New(s.NewClient(t, wire.Use), lockmw.WithPrefix("idem"), lockmw.WithUnlockTimeout(100*time.Millisecond))
		isError(t, err, nil)
		defer func() {
			wire.Restore()
			isError(t, c.Close(), nil)
		}()
		once, shop := idempotency.New(c), &shop{}
		_, err = idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
			wire.Cut()
			return shop.order(ctx, o)
		})
		isError(t, err, idempotency.ErrNotRecorded)
		wire.Restore()
		var got receipt
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if got, err = shop.do(once, "tea", idempotency.Refuse); !errors.Is(err, idempotency.ErrInFlight) {
				break
			}
		}
		// The end may have reached the server later. Then the repetition gets the answer.
		if !errors.Is(err, idempotency.ErrUnknownOutcome) && (err != nil || got.Number != 1) || shop.count() != 1 {
			t.Errorf("a repetition got %v, %v after %d runs", got, err, shop.count())
		}
	})
}

func TestARecordOfAnotherTypeIsNotTouched(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		rdb := s.NewClient(t)
		once := idempotency.New(newClient(t, s))
		name := "idem:{" + key.LockKey() + "}:record"
		isError(t, rdb.Set(t.Context(), name, "mine", 0).Err(), nil)
		_, err := (&shop{}).do(once, "tea", idempotency.Refuse)
		isError(t, err, lockmw.ErrWrongType)
		if v := rdb.Get(t.Context(), name).Val(); v != "mine" {
			t.Errorf("the key has %q", v)
		}
	})
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
