package idempotency_test

import (
	"errors"
	"testing"

	"github.com/lockmw/go/lockmw"
)

// forEach runs f with each kind of Locker that keeps records itself.
func forEach(t *testing.T, f func(t *testing.T, locks lockmw.Locker)) {
	t.Helper()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		f(t, lockmw.NewLocal())
	})
}

func isError(t *testing.T, err, want error) {
	t.Helper()
	if want == nil && err != nil || !errors.Is(err, want) {
		t.Errorf("the error is %v, want %v", err, want)
	}
}
