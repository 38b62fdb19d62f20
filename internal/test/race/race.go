// Package race says whether the tests run under the race detector, which allocates and makes everything
// several times slower.
package race

import "testing"

// FindsNothing skips a long test that has one goroutine only.
func FindsNothing(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("one goroutine has no races")
	}
}
