package idempotency_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// memoryStore returns the store of a Local.
func memoryStore(t *testing.T) idempotency.Store {
	t.Helper()
	run, err := idempotency.New(lockmw.NewLocal()).Begin(t.Context(), key, idempotency.Fingerprint{}, idempotency.Refuse)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = run.Forget() }()
	return run.Store()
}

var someRun = strings.Repeat("5", 32)

func someClaim(ttl time.Duration) idempotency.Claim {
	return idempotency.Claim{Key: "idem:key", Run: someRun, Token: 5, MaxSilent: 3, TTL: ttl}
}

func TestAVoidRunDoesNotBeginLater(t *testing.T) {
	s := memoryStore(t)
	isError(t, s.Void(context.Background(), "idem:key", someRun), nil)
	_, err := s.Begin(t.Context(), someClaim(time.Hour))
	isError(t, err, idempotency.ErrSuperseded)
}

func TestVoidDoesNotShortenARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryStore(t)
		if _, err := s.Begin(t.Context(), someClaim(50*time.Second)); err != nil {
			t.Fatal(err)
		}
		isError(t, s.Void(context.Background(), "idem:key", strings.Repeat("6", 32)), nil)
		time.Sleep(49 * time.Second)
		if rec, err := s.Look(t.Context(), "idem:key"); err != nil || rec.State != idempotency.Open {
			t.Errorf("after 49 s the record is %+v, %v", rec, err)
		}
	})
}
