package idempotency_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestTheMaximumHoldEndsTheContextOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once := idempotency.New(lockmw.NewLocal(), idempotency.WithMaxHold(time.Second))
		_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, _ order) (receipt, error) {
			<-ctx.Done()
			isError(t, context.Cause(ctx), lockmw.ErrLost)
			return receipt{}, ctx.Err()
		})
		isError(t, err, context.Canceled)
		_, err = (&shop{}).do(once, "tea", idempotency.Refuse)
		isError(t, err, idempotency.ErrUnknownOutcome)
	})
}

func TestARunThatSucceedsAfterItsHoldEndedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once, s := idempotency.New(lockmw.NewLocal(), idempotency.WithMaxHold(time.Second)), &shop{}
		_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, o order) (receipt, error) {
			<-ctx.Done()
			return s.order(ctx, o)
		})
		isError(t, err, nil)
		if got, err := s.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
			t.Errorf("a repetition got %v, %v", got, err)
		}
	})
}

func TestARunThatWasReplacedIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once, s := idempotency.New(lockmw.NewLocal(), idempotency.WithMaxHold(time.Second)), &shop{}
		_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.RunAgain, func(ctx context.Context, o order) (receipt, error) {
			<-ctx.Done()
			if _, err := s.do(once, "tea", idempotency.RunAgain); err != nil {
				t.Error(err)
			}
			return receipt{100}, nil
		})
		isError(t, err, idempotency.ErrNotRecorded)
		if got, err := s.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
			t.Errorf("a repetition got %v, %v, want the answer of the second run", got, err)
		}
	})
}

func TestARecordEndsWithItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once, s := idempotency.New(lockmw.NewLocal(), idempotency.WithTTL(time.Hour)), &shop{}
		for i, pause := range []time.Duration{0, time.Hour - time.Second, 2 * time.Second} {
			time.Sleep(pause)
			if got, err := s.do(once, "tea", idempotency.Refuse); err != nil || got.Number != i/2+1 {
				t.Errorf("call %d got %v, %v", i, got, err)
			}
		}
	})
}

func TestAnOldKeyIsRefused(t *testing.T) {
	made := time.Now().Add(-25 * time.Hour)
	known := true
	once := idempotency.New(lockmw.NewLocal(), idempotency.WithKeyTime(func(idempotency.Key) (time.Time, bool) { return made, known }))
	_, err := (&shop{}).do(once, "tea", idempotency.Refuse)
	isError(t, err, idempotency.ErrKeyExpired)
	known = false
	_, err = (&shop{}).do(once, "tea", idempotency.Refuse)
	isError(t, err, nil)
}

// A function whose context has ended before it begins would only fail, and leave an unknown outcome.
func TestACallThatEndsBeforeItBeginsHasDoneNothing(t *testing.T) {
	t.Parallel()
	leave := func() {}
	var outcomes []string
	locks := usertest.Client(t, redistest.Mini(t), lockmw.WithObserver(&lockmw.Observer{
		Acquired: func(ctx context.Context, _ lockmw.Attempt, _ lockmw.Acquisition) context.Context { leave(); return ctx },
		Idempotent: func(_ context.Context, _ lockmw.Attempt, c lockmw.IdempotentCall) {
			outcomes = append(outcomes, c.Outcome)
		},
	}))
	once, s := idempotency.New(locks), &shop{}
	ctx, cancel := context.WithCancel(t.Context())
	leave = cancel
	_, err := idempotency.Do(ctx, once, key, order{"tea"}, idempotency.Refuse, func(ctx context.Context, _ order) (receipt, error) {
		t.Error("the function was called")
		return receipt{}, ctx.Err()
	})
	isError(t, err, context.Canceled)
	if e, ok := errors.AsType[*idempotency.Error](err); !ok || e.Op != "begin" {
		t.Errorf("the error is %#v, want an *Error of Op begin", err)
	}
	if !slices.Equal(outcomes, []string{"canceled"}) {
		t.Errorf("observers saw %q, want one call that was cancelled", outcomes)
	}
	leave = func() {}
	if got, err := s.do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
		t.Errorf("the repetition got %v, %v", got, err)
	}
}
