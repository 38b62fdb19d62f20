// Package leak finds the goroutines that a test has left behind, also while other tests run.
//
//	func TestX(t *testing.T) {
//		t.Parallel()
//		leak.Check(t)
//		…
//	}
//
// A profiler label shows which test a goroutine belongs to: a goroutine inherits the labels of the one that starts it.
// Goroutines of timers (time.AfterFunc, a context's deadline) inherit none. So a check of the whole process, such as goleak's,
// has to follow when all tests have ended.
package leak

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	key      = "test"
	patience = 2 * time.Second // how long goroutines may take to end
)

// Goroutines are the goroutines that a test has started, directly or indirectly. The zero value is all goroutines of the
// process.
type Goroutines struct{ label string }

var tests atomic.Int64

// Check labels the test's goroutine, and those that it starts from now on. The test fails if any are left after all cleanups
// that are registered later. Goroutines with one of the given functions in their stacks may be left.
func Check(t testing.TB, except ...string) Goroutines {
	t.Helper()
	id := fmt.Sprintf("%s (%d)", t.Name(), tests.Add(1))
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(key, id)))
	g := Goroutines{label: strconv.Quote(key) + ":" + strconv.Quote(id)}
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.Background()) // of this goroutine, which is about to end
		if left := g.left(except); left != "" {
			t.Errorf("left running: %s", left)
		}
	})
	return g
}

// left returns the stack of a goroutine that does not end.
func (g Goroutines) left(except []string) string {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(patience / 100)
	defer tick.Stop()
	for {
		left := g.find(func(stack string) bool { return !containsAny(stack, except) })
		if left == "" {
			return ""
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return left
		}
	}
}

// In returns the stack of a goroutine that contains one of the functions, or "".
func (g Goroutines) In(functions ...string) string {
	return g.find(func(stack string) bool { return containsAny(stack, functions) })
}

func (g Goroutines) find(matches func(stack string) bool) string {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1) // a buffer never fails
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(labels(stack), g.label) && matches(stack) {
			return stack
		}
	}
	return ""
}

// labels returns the line of a stack with the labels.
func labels(stack string) string {
	_, rest, _ := strings.Cut(stack, "\n# labels: ")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

func containsAny(s string, words []string) bool {
	for _, word := range words {
		if strings.Contains(s, word) {
			return true
		}
	}
	return false
}

// VerifyMain runs the tests of a package that serves the page of package inspector, and ends the process with an error if goroutines
// are left. TestMain calls it. On a slow machine a request is answered before its read has ended; the page keeps such a read for up
// to a minute, for the next request. VerifyMain waits for that.
func VerifyMain(run func() int) { goleak.VerifyTestMain(patient(run)) }

type patient func() int

// Run runs the tests, and waits until all kept reads have ended.
func (p patient) Run() int {
	code := p()
	for began := time.Now(); code == 0 && time.Since(began) < 2*time.Minute; {
		if goleak.Find() == nil {
			break
		}
	}
	return code
}
