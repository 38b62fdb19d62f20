package lockmw_test

import (
	"context"
	"testing"

	"github.com/lockmw/go/lockmw"
)

// A mistake shows where the wrapper is made, not at its first call.
func TestWithLockPanicsWithoutALocker(t *testing.T) {
	var client *lockmw.Client // what New returned whose error nobody looked at
	for name, l := range map[string]lockmw.Locker{"nil": nil, "a nil *Client": client} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("WithLock over %s does not panic", name)
				}
			}()
			key := func(context.Context, string) (string, error) { return "k", nil }
			lockmw.WithLock(l, key, func(context.Context, string) error { return nil })
		}()
	}
}
