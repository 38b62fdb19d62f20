package idempotency_test

import (
	"errors"
	"testing"

	"github.com/lockmw/go/idempotency"
	"github.com/lockmw/go/internal/test/interrupt"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/lockmw"
)

func TestMain(m *testing.M) {
	interrupt.ChildMain(openBuyer)
	suite.BeginBusy()
	leak.VerifyMain(m.Run)
}

// forEach runs f with each kind of Locker that keeps records itself.
func forEach(t *testing.T, f func(t *testing.T, locks lockmw.Locker)) {
	t.Helper()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		f(t, lockmw.NewLocal())
	})
	redistest.Each(t, func(t *testing.T, s *redistest.Server) { f(t, newClient(t, s)) })
}

func newClient(t testing.TB, s *redistest.Server) *lockmw.Client {
	t.Helper()
	return newSite(s).client(t)
}

func isError(t *testing.T, err, want error) {
	t.Helper()
	if want == nil && err != nil || !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}

// refusal returns the error with which New panics; nil if it does not.
func refusal(l lockmw.Locker, opts ...idempotency.Option) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err, _ = v.(error)
		}
	}()
	idempotency.New(l, opts...)
	return nil
}
