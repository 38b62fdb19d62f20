// Package race says whether the tests run under the race detector, which allocates and makes everything
// several times slower.
package race

import (
	"runtime"
	"testing"
)

// FindsNothing skips a long test that has one goroutine only.
func FindsNothing(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("one goroutine has no races")
	}
}

// OneProcessor lets the race detector live with bubbles of testing/synctest, until the returned function is called: two threads
// that run timers of one bubble at the same time make it crash, https://go.dev/issue/78156. With one processor there is but
// one. The test must not be parallel to others.
func OneProcessor() (restore func()) {
	if !Enabled {
		return func() {}
	}
	n := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(n) }
}
