package idempotency_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

func TestBeginWithinHasItsOwnWaitAndLabel(t *testing.T) {
	forEach(t, func(t *testing.T, locks lockmw.Locker) {
		once := idempotency.New(locks, idempotency.WithWait(time.Hour))
		key := idempotency.Key{Scope: "acme", ID: "1"}
		first, err := once.BeginWithin(t.Context(), 0, "task-1", key, key.Fingerprint(), idempotency.RunAgain)
		if err != nil {
			t.Fatal(err)
		}
		_, err = once.BeginWithin(t.Context(), 0, "task-2", key, key.Fingerprint(), idempotency.RunAgain)
		isError(t, err, idempotency.ErrInFlight)
		if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.Label != "task-2" || len(e.Holders) != 1 || e.Holders[0].Label != "task-1" {
			t.Errorf("the labels of the holds and of the calls differ: %v", err)
		}
		time.AfterFunc(10*time.Millisecond, func() {
			if err := first.Keep(idempotency.Answer{}); err != nil {
				t.Error(err)
			}
		})
		again, err := once.BeginWithin(t.Context(), lockmw.Forever, "", key, key.Fingerprint(), idempotency.RunAgain)
		if err != nil {
			t.Fatal(err)
		}
		if _, done := again.Replay(); !done {
			t.Error("the work is done, and runs again")
		}
	})
}

func TestBeginWithinKeepsTheLabelOfTheRunner(t *testing.T) {
	once := idempotency.New(lockmw.NewLocal(), idempotency.WithLockOptions(lockmw.WithLabel("orders")))
	key := idempotency.Key{Scope: "acme", ID: "1"}
	run, err := once.BeginWithin(t.Context(), 0, "task-1", key, key.Fingerprint(), idempotency.RunAgain)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = run.Leave() }()
	_, err = once.BeginWithin(t.Context(), 0, "", key, key.Fingerprint(), idempotency.RunAgain)
	if e, ok := errors.AsType[*lockmw.Error](err); !ok || e.Holders[0].Label != "orders" {
		t.Errorf("the label of the run is not that of the Runner: %v", err)
	}
}
