package idempotency_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

// took fails the test unless calls with these outcomes have ended.
func took(t *testing.T, o *usertest.Outcomes, want ...string) {
	t.Helper()
	if got := o.Take(); !slices.Equal(got, want) {
		t.Errorf("the outcomes are %q, want %q", got, want)
	}
}

func TestObserversGetTheOutcomeOfEachCall(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		var o usertest.Outcomes
		observed := idempotency.WithLockOptions(lockmw.WithObserver(o.Observer()))
		once, s := idempotency.New(locks, observed, idempotency.WithWait(0)), &shop{}
		_, _ = s.do(once, "tea", idempotency.Refuse)
		took(t, &o, "kept")
		_, _ = s.do(once, "tea", idempotency.Refuse)
		took(t, &o, "replayed")
		_, _ = s.do(once, "coffee", idempotency.Refuse)
		took(t, &o, "reused")

		other := idempotency.Key{Scope: "user-7", ID: "other"}
		first, err := once.Begin(t.Context(), other, other.Fingerprint(), idempotency.Refuse)
		if err != nil {
			t.Fatal(err)
		}
		_, err = once.Begin(t.Context(), other, other.Fingerprint(), idempotency.Refuse)
		isError(t, err, idempotency.ErrInFlight)
		took(t, &o, "in_flight")
		for range 3 { // only the first ends the run
			_ = first.Leave()
		}
		took(t, &o, "unfinished")
		_, err = once.Begin(t.Context(), other, other.Fingerprint(), idempotency.Refuse)
		isError(t, err, idempotency.ErrUnknownOutcome)
		took(t, &o, "unknown")
		recovered := idempotency.Recover(func(context.Context, idempotency.Unfinished) (idempotency.Answer, error) {
			return idempotency.Answer{}, idempotency.ErrNotDone
		})
		again, err := once.Begin(t.Context(), other, other.Fingerprint(), recovered)
		if err != nil {
			t.Fatal(err)
		}
		idempotency.NotDone(again.Context())
		if err := again.Keep(idempotency.Answer{}); err != nil {
			t.Error(err)
		}
		took(t, &o, "forgotten")
	})
}

func TestARunThatAnotherOneReplacedIsUnfinished(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		var o usertest.Outcomes
		observed := idempotency.WithLockOptions(lockmw.WithObserver(o.Observer()))
		brief := idempotency.New(locks, observed, idempotency.WithMaxHold(time.Second)) // a busy machine may take long to begin
		first, err := brief.Begin(t.Context(), key, key.Fingerprint(), idempotency.RunAgain)
		if err != nil {
			t.Fatal(err)
		}
		<-first.Context().Done()
		second, err := idempotency.New(locks, observed).Begin(t.Context(), key, key.Fingerprint(), idempotency.RunAgain)
		if err != nil {
			t.Fatal(err)
		}
		isError(t, first.Keep(idempotency.Answer{}), idempotency.ErrNotRecorded)
		if err := second.Keep(idempotency.Answer{}); err != nil {
			t.Error(err)
		}
		took(t, &o, "unfinished", "kept")
	})
}

func TestBeginWithinLeavesTheReportOfAnErrorToTheMiddleware(t *testing.T) {
	var o usertest.Outcomes
	labels := make(map[string]int)
	label := &lockmw.Observer{Idempotent: func(_ context.Context, a lockmw.Attempt, _ lockmw.IdempotentCall) { labels[a.Policy.Label]++ }}
	once := idempotency.New(lockmw.NewLocal(lockmw.WithObserver(o.Observer()), lockmw.WithObserver(label)))
	begin := func(label string) (*idempotency.Run, error) {
		return once.BeginWithin(t.Context(), 0, label, key, key.Fingerprint(), idempotency.RunAgain)
	}
	run, err := begin("task-1")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = begin("task-2")
		isError(t, err, idempotency.ErrInFlight)
	}
	took(t, &o)
	once.Refused(t.Context(), "task-2", key, err)
	took(t, &o, "in_flight")
	once.Refused(t.Context(), "task-2", key, nil)
	took(t, &o)
	if err := run.Keep(idempotency.Answer{}); err != nil {
		t.Error(err)
	}
	if _, err := begin("task-3"); err != nil {
		t.Error(err)
	}
	took(t, &o, "kept", "replayed")
	if labels["task-1"] != 1 || labels["task-2"] != 1 || labels["task-3"] != 1 {
		t.Errorf("the labels are %v, want each once", labels)
	}
}

func TestAResultThatCannotBeReadIsNotReplayed(t *testing.T) {
	var o usertest.Outcomes
	once := idempotency.New(lockmw.NewLocal(lockmw.WithObserver(o.Observer())))
	number := func(context.Context, order) (int, error) { return 7, nil }
	if _, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, number); err != nil {
		t.Fatal(err)
	}
	_, err := (&shop{}).do(once, "tea", idempotency.Refuse)
	isError(t, err, idempotency.ErrDone)
	took(t, &o, "kept", "done")
}

func TestAPanicOfAnObserverDoesNotReachTheCall(t *testing.T) {
	usertest.DefaultLog(t)
	once := idempotency.New(lockmw.NewLocal(lockmw.WithObserver(&lockmw.Observer{
		Idempotent: func(context.Context, lockmw.Attempt, lockmw.IdempotentCall) { panic(errors.New("a bug")) },
	})))
	if got, err := (&shop{}).do(once, "tea", idempotency.Refuse); err != nil || got.Number != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
