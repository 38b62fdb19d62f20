package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/lockmw"
)

// A slowStore loses its answer to the first Begin, and is slow to make the run void.
type slowStore struct {
	idempotency.Store
	cancel context.CancelFunc // of the first call
	begins int
}

func (s *slowStore) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Record, error) {
	rec, err := s.Store.Begin(ctx, c)
	if s.begins++; s.begins == 1 {
		if err != nil || rec.State != idempotency.Open {
			return rec, errors.Join(errBug, err)
		}
		s.cancel()
		return idempotency.Record{}, ctx.Err()
	}
	return rec, err
}

func (s *slowStore) Void(ctx context.Context, key, run string) error {
	time.Sleep(time.Second) // of the bubble's clock
	return s.Store.Void(ctx, key, run)
}

// The record is open although the first call has run nothing. Nobody may see that: with Refuse a person would have to decide.
func TestARunThatIsMadeVoidIsNotAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Second) // until the first run is void
		ctx, cancel := context.WithCancel(t.Context())
		store := &slowStore{Store: memoryStore(t), cancel: cancel}
		once := idempotency.New(lockmw.LockerFunc(lockmw.NewLocal().Lock), idempotency.WithStore(store))
		key := idempotency.Key{Scope: "user-8", ID: key.ID} // memoryStore has used the other one
		shop := &shop{}
		begun := time.Now()
		_, err := idempotency.Do(ctx, once, key, order{"tea"}, idempotency.Refuse, shop.order)
		isError(t, err, context.Canceled)
		if d := time.Since(begun); d > 0 {
			t.Errorf("the call that was canceled returned after %v", d)
		}
		got, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, shop.order)
		if err != nil || got.Number != 1 {
			t.Errorf("a repetition got %v, %v", got, err)
		}
	})
}
