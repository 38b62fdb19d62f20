package idempotency_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

var errBug = errors.New("a bug")

// An unprintable result has no JSON.
type unprintable struct{}

func (unprintable) MarshalJSON() ([]byte, error) { panic(errBug) }

// A breakingStore panics when a run ends.
type breakingStore struct{ idempotency.Store }

func (breakingStore) End(context.Context, idempotency.End) (bool, error) { panic(errBug) }

func TestAStoreThatPanicsReleasesTheLock(t *testing.T) {
	store, locks := memoryStore(t), lockmw.LockerFunc(lockmw.NewLocal().Lock)
	once := idempotency.New(locks, idempotency.WithStore(store), idempotency.WithWait(0))
	breaks := idempotency.New(locks, idempotency.WithStore(breakingStore{store}))
	key := idempotency.Key{Scope: "user-8", ID: key.ID} // memoryStore has used the other one
	isError(t, usertest.Recovered(func() {
		_, _ = idempotency.Do(t.Context(), breaks, key, order{"tea"}, idempotency.Refuse, (&shop{}).order)
	}), errBug)
	_, err := idempotency.Do(t.Context(), once, key, order{"tea"}, idempotency.Refuse, (&shop{}).order)
	isError(t, err, idempotency.ErrUnknownOutcome)
}

// A program that recovers from the panic, as servers do, must not be left with a lock that nobody can release.
func TestAPanicOfTheCallersCodeReleasesTheLock(t *testing.T) {
	fails := func(context.Context, order) (receipt, error) { return receipt{}, errors.New("timeout") }
	breaks := idempotency.Recover(func(context.Context, idempotency.Unfinished) (idempotency.Answer, error) { panic(errBug) })
	seal := idempotency.WithSealer(idempotency.Sealer{
		Seal: func([]byte) ([]byte, error) { panic(errBug) },
		Open: func([]byte) ([]byte, error) { return nil, nil },
	})
	for name, broken := range map[string]func(once, sealed *idempotency.Runner){
		"the function of Recover": func(once, _ *idempotency.Runner) {
			_, _ = idempotency.Do(context.Background(), once, key, order{"tea"}, idempotency.Refuse, fails)
			_, _ = idempotency.Do(context.Background(), once, key, order{"tea"}, breaks, fails)
		},
		"MarshalJSON of the result": func(once, _ *idempotency.Runner) {
			_, _ = idempotency.Do(context.Background(), once, key, order{"tea"}, idempotency.Refuse,
				func(context.Context, order) (unprintable, error) { return unprintable{}, nil })
		},
		"the Sealer": func(_, sealed *idempotency.Runner) {
			_, _ = (&shop{}).do(sealed, "tea", idempotency.Refuse)
		},
		"the Sealer, in Run.Keep": func(_, sealed *idempotency.Runner) {
			run, err := sealed.Begin(context.Background(), key, key.Fingerprint([]byte(`{"Item":"tea"}`)), idempotency.Refuse)
			if err == nil {
				_ = run.Keep(idempotency.Answer{})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			forEach(t, func(t *testing.T, locks lockmw.Locker) {
				once := idempotency.New(locks, idempotency.WithWait(0))
				isError(t, usertest.Recovered(func() { broken(once, idempotency.New(locks, seal)) }), errBug)
				_, err := (&shop{}).do(once, "tea", idempotency.Refuse)
				isError(t, err, idempotency.ErrUnknownOutcome)
			})
		})
	}
}
