package idempotency_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

var key = idempotency.Key{Scope: "user-7", ID: "8e03978e-40d5-43dd-bc93-6894a57f9324"}

type order struct{ Item string }

type receipt struct{ Number int }

// A shop counts its orders.
type shop struct {
	mu     sync.Mutex
	orders int
	fail   error // what the next orders return; they count nevertheless
}

func (s *shop) order(_ context.Context, _ order) (receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders++
	return receipt{s.orders}, s.fail
}

func (s *shop) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders
}

func (s *shop) do(once *idempotency.Runner, item string, p idempotency.Policy) (receipt, error) {
	return idempotency.Do(context.Background(), once, key, order{item}, p, s.order)
}

func TestARepetitionGetsTheFirstResult(t *testing.T) { forEach(t, testRepetition) }

func testRepetition(t *testing.T, locks lockmw.Locker) {
	once, s := idempotency.New(locks), &shop{}
	for range 3 {
		got, err := s.do(once, "tea", idempotency.Refuse)
		if err != nil || got.Number != 1 {
			t.Fatalf("got %v, %v, want the first receipt", got, err)
		}
	}
	if s.count() != 1 {
		t.Errorf("the work ran %d times", s.count())
	}
}

func TestSimultaneousCallsRunTheWorkOnce(t *testing.T) { forEach(t, testSimultaneousCalls) }

func testSimultaneousCalls(t *testing.T, locks lockmw.Locker) {
	once, s := idempotency.New(locks, idempotency.WithWait(time.Minute)), &shop{}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if got, err := s.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
				t.Errorf("got %v, %v, want the first receipt", got, err)
			}
		})
	}
	wg.Wait()
	if s.count() != 1 {
		t.Errorf("the work ran %d times", s.count())
	}
}

func TestAnotherScopeIsAnotherKey(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		once, s := idempotency.New(locks), &shop{}
		for i, scope := range []string{"a", "b"} {
			k := idempotency.Key{Scope: scope, ID: key.ID}
			got, err := idempotency.Do(t.Context(), once, k, order{scope}, idempotency.Refuse, s.order)
			if err != nil || got.Number != i+1 {
				t.Errorf("scope %s: got %v, %v", scope, got, err)
			}
		}
	})
}

func TestAnotherRequestWithTheKeyIsRefused(t *testing.T) { forEach(t, testOtherRequest) }

func testOtherRequest(t *testing.T, locks lockmw.Locker) {
	once, s := idempotency.New(locks), &shop{}
	_, _ = s.do(once, "tea", idempotency.Refuse)
	_, err := s.do(once, "coffee", idempotency.Refuse)
	isError(t, err, idempotency.ErrReused)
	s.fail = errors.New("no stock")
	other := idempotency.Key{Scope: "user-7", ID: "unfinished"}
	_, _ = idempotency.Do(t.Context(), once, other, order{"tea"}, idempotency.RunAgain, s.order)
	_, err = idempotency.Do(t.Context(), once, other, order{"coffee"}, idempotency.RunAgain, s.order)
	isError(t, err, idempotency.ErrReused)
	if s.count() != 2 {
		t.Errorf("the work ran %d times", s.count())
	}
}

func TestARepetitionWaitsForTheFirstRun(t *testing.T) { forEach(t, testWait) }

func testWait(t *testing.T, locks lockmw.Locker) {
	once := idempotency.New(locks)
	impatient := idempotency.New(locks, idempotency.WithWait(0))
	s, begun, finish := &shop{}, make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
			close(begun)
			<-finish
			return s.order(ctx, o)
		})
		first <- err
	}()
	<-begun
	_, err := s.do(impatient, "tea", idempotency.Refuse)
	isError(t, err, idempotency.ErrInFlight)
	isError(t, err, lockmw.ErrBusy)
	_, err = s.do(impatient, "coffee", idempotency.Refuse)
	if !errors.Is(err, idempotency.ErrReused) && !errors.Is(err, idempotency.ErrInFlight) {
		t.Errorf("another request during the run: %v", err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := s.do(once, "tea", idempotency.Refuse)
		second <- err
	}()
	close(finish)
	for _, done := range []chan error{first, second} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if s.count() != 1 {
		t.Errorf("the work ran %d times", s.count())
	}
}

func TestThePolicyDecidesAboutAnUnknownOutcome(t *testing.T) { forEach(t, testPolicies) }

func testPolicies(t *testing.T, locks lockmw.Locker) {
	once, s := idempotency.New(locks), &shop{fail: errors.New("timeout of the warehouse")}
	_, err := s.do(once, "tea", idempotency.Refuse)
	isError(t, err, s.fail)

	_, err = s.do(once, "tea", idempotency.Refuse)
	isError(t, err, idempotency.ErrUnknownOutcome)
	e, _ := errors.AsType[*idempotency.Error](err)
	if u := e.Unfinished; u == nil || u.Key != key || len(u.Run) != 32 || u.Token == 0 || u.Attempts != 1 || time.Since(u.Began).Abs() > time.Minute {
		t.Errorf("the details are %+v", u)
	}
	if s.count() != 1 {
		t.Fatalf("the work ran %d times", s.count())
	}

	attempts := []int{}
	for range 5 { // runs that return may be as many as the caller wants
		_, err = idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.RunAgain, func(ctx context.Context, o order) (receipt, error) {
			attempts = append(attempts, idempotency.Attempt(ctx))
			return s.order(ctx, o)
		})
		isError(t, err, s.fail)
	}
	if want := []int{2, 3, 4, 5, 6}; !slices.Equal(attempts, want) {
		t.Errorf("the attempts are %v, want %v", attempts, want)
	}
}

// A recovery is what the function of Recover finds out, and what follows.
type recovery struct {
	number int   // of the answer; 0: none was found
	err    error // of the function
	want   receipt
	runs   int
}

var errUnclear = errors.New("the provider does not answer")

var recoveries = map[string]recovery{
	"an answer":     {number: 42, want: receipt{42}, runs: 1},
	"not done":      {err: idempotency.ErrNotDone, want: receipt{2}, runs: 2},
	"it is unknown": {err: errUnclear, runs: 1},
}

func TestRecoverFindsOutWhatWasDone(t *testing.T) {
	for name, r := range recoveries {
		t.Run(name, func(t *testing.T) { forEach(t, r.test) })
	}
}

func (r recovery) test(t *testing.T, locks lockmw.Locker) {
	once, s := idempotency.New(locks), &shop{fail: errors.New("timeout")}
	_, _ = s.do(once, "tea", idempotency.Refuse)
	s.fail = nil
	policy := idempotency.Recover(func(ctx context.Context, u idempotency.Unfinished) (idempotency.Answer, error) {
		if _, err := lockmw.Held(ctx, key.LockKey()); err != nil || u.Attempts != 1 || u.Committed {
			t.Errorf("%v; %+v", err, u)
		}
		found, _ := idempotency.Result(receipt{r.number})
		return found, r.err
	})
	got, err := s.do(once, "tea", policy)
	if got != r.want || s.count() != r.runs {
		t.Errorf("got %v after %d runs, want %v after %d", got, s.count(), r.want, r.runs)
	}
	if errors.Is(r.err, errUnclear) {
		isError(t, err, errUnclear)
		isError(t, err, idempotency.ErrUnknownOutcome)
		return
	}
	isError(t, err, nil)
	if again, err := s.do(once, "tea", idempotency.Refuse); err != nil || again != got {
		t.Errorf("a repetition got %v, %v", again, err)
	}
}

func TestNotDoneForgetsTheRun(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		once, invalid := idempotency.New(locks), errors.New("no such item")
		for _, err := range []error{invalid, nil} {
			_, got := idempotency.Do(t.Context(), once, key, order{"te"}, idempotency.Refuse, func(ctx context.Context, _ order) (receipt, error) {
				idempotency.NotDone(ctx)
				return receipt{}, err
			})
			isError(t, got, err)
		}
		s := &shop{}
		if got, err := s.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
			t.Errorf("a corrected request got %v, %v", got, err)
		}
	})
}

func TestAForgottenRunDoesNotResetTheAttempts(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		once, s := idempotency.New(locks), &shop{fail: errors.New("timeout")}
		_, _ = s.do(once, "tea", idempotency.RunAgain)
		_, _ = idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.RunAgain, func(ctx context.Context, _ order) (receipt, error) {
			idempotency.NotDone(ctx)
			return receipt{}, nil
		})
		_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.RunAgain, func(ctx context.Context, _ order) (receipt, error) {
			if n := idempotency.Attempt(ctx); n != 2 {
				t.Errorf("attempt %d, want 2", n)
			}
			return receipt{}, nil
		})
		isError(t, err, nil)
	})
}

func TestAPanicLeavesTheOutcomeUnknown(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		once := idempotency.New(locks)
		func() {
			defer func() {
				if v := recover(); v != "bug" {
					t.Errorf("recovered %v", v)
				}
			}()
			_, _ = idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(context.Context, order) (receipt, error) { panic("bug") })
		}()
		_, err := (&shop{}).do(once, "tea", idempotency.Refuse)
		isError(t, err, idempotency.ErrUnknownOutcome)
	})
}

func TestANestedCallOfTheKeyIsRefused(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		once, s := idempotency.New(locks), &shop{}
		_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
			other := idempotency.Key{Scope: "user-7", ID: "other"}
			return idempotency.Do(ctx, once, other, o, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
				_, err := idempotency.Do(ctx, once, key, o, idempotency.Refuse, s.order)
				isError(t, err, idempotency.ErrNested)
				return receipt{1}, nil
			})
		})
		isError(t, err, nil)
	})
}

func TestALargeResultIsNotKept(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		once := idempotency.New(locks, idempotency.WithMaxBody(100))
		big := func(context.Context, order) (string, error) { return strings.Repeat("x", 100), nil }
		got, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, big)
		if err != nil || len(got) != 100 {
			t.Fatalf("%q, %v", got, err)
		}
		_, err = idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, big)
		isError(t, err, idempotency.ErrDone)
	})
}

func TestASealedAnswerIsOpened(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		flip := func(b []byte) ([]byte, error) {
			out := make([]byte, len(b))
			for i := range b {
				out[i] = b[i] ^ 0x55
			}
			return out, nil
		}
		once := idempotency.New(locks, idempotency.WithSealer(idempotency.Sealer{Seal: flip, Open: flip}))
		want := strings.Repeat("secret ", 1000)
		for range 2 {
			got, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(context.Context, order) (string, error) { return want, nil })
			if err != nil || got != want {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		}
		_, err := (&shop{}).do(idempotency.New(locks), "tea", idempotency.Refuse)
		isError(t, err, idempotency.ErrDone)
	})
}

func TestResolveDecidesAboutAnUnknownOutcome(t *testing.T) {
	t.Run("done", func(t *testing.T) {
		forEach(t, func(t *testing.T, locks lockmw.Locker) { testResolve(t, locks, &receipt{7}, receipt{7}) })
	})
	t.Run("not done", func(t *testing.T) {
		forEach(t, func(t *testing.T, locks lockmw.Locker) { testResolve(t, locks, nil, receipt{2}) })
	})
}

// testResolve resolves a run that has returned resolved, or that has done nothing if that is nil.
func testResolve(t *testing.T, locks lockmw.Locker, resolved *receipt, want receipt) {
	t.Helper()
	once, s := idempotency.New(locks), &shop{fail: errors.New("timeout")}
	_, _ = s.do(once, "tea", idempotency.Refuse)
	s.fail = nil
	_, err := s.do(once, "tea", idempotency.Refuse)
	e, ok := errors.AsType[*idempotency.Error](err)
	if !ok || e.Unfinished == nil {
		t.Fatal(err)
	}
	isError(t, once.Resolve(t.Context(), key, strings.Repeat("0", 32), nil), idempotency.ErrUnknownOutcome)
	var answer *idempotency.Answer
	if resolved != nil {
		result, _ := idempotency.Result(resolved)
		answer = &result
	}
	isError(t, once.Resolve(t.Context(), key, e.Unfinished.Run, answer), nil)
	if got, err := s.do(once, "tea", idempotency.Refuse); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// The holder is the first run of the key, so the hint that a call may wait for itself would be wrong.
func TestAWaitForTheFirstRunIsNotReportedAsASelfWait(t *testing.T) {
	usertest.InBubble(t, func(t *testing.T, s *redistest.Server) {
		var log usertest.Output
		once := idempotency.New(usertest.Client(t, s, lockmw.WithLogger(log.Logger())))
		shop, began := &shop{}, make(chan struct{})
		var calls sync.WaitGroup
		calls.Go(func() {
			_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
				close(began)
				time.Sleep(3 * time.Second) // of the bubble's clock
				return shop.order(ctx, o)
			})
			isError(t, err, nil)
		})
		<-began
		if got, err := shop.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
			t.Errorf("the second call got %v, %v", got, err)
		}
		calls.Wait()
		if got := log.String(); got != "" {
			t.Errorf("logged: %s", got)
		}
	})
}
