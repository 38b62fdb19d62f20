// Package race reports whether the tests run under the race detector, which makes everything several times slower and makes
// more allocations.
package race

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// FindsNothing skips a long test with a single goroutine.
func FindsNothing(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("one goroutine has no races")
	}
}

// OneProcessor makes bubbles of testing/synctest safe under the race detector, until the returned function is called. Two
// threads that run timers of one bubble at the same time crash it, https://go.dev/issue/78156; one processor runs only one of
// them. Under the race detector, the test must not be parallel to others.
func OneProcessor() (restore func()) {
	if !Enabled {
		return func() {}
	}
	n := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(n) }
}

// Parallel lets a test whose bubbles need OneProcessor run in parallel with others, except under the race detector.
func Parallel(t *testing.T) {
	t.Helper()
	if !Enabled {
		t.Parallel()
	}
}

// InBubble runs a test in a bubble of testing/synctest, in parallel with others, except under the race detector.
func InBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	Parallel(t)
	defer OneProcessor()()
	synctest.Test(t, test)
}
