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
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	key   = "test"
	looks = 100                   // for goroutines that have not ended
	tick  = 20 * time.Millisecond // between them
)

// Goroutines are the goroutines that a test has started, directly or indirectly. The zero value is all goroutines of the
// process.
type Goroutines struct{ label string }

var tests atomic.Int64

// dialler is a function of go-redis that dials an unreachable server until a second after its client was closed.
const dialler = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"

// Check labels the test's goroutine, and those that it starts from now on. The test fails if any are left after all cleanups
// that are registered later. A goroutine of go-redis that dials is found by VerifyMain only, because it may last longer.
func Check(t testing.TB) Goroutines {
	t.Helper()
	id := fmt.Sprintf("%s (%d)", t.Name(), tests.Add(1))
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(key, id)))
	g := Goroutines{label: strconv.Quote(key) + ":" + strconv.Quote(id)}
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.Background()) // of this goroutine, which is about to end
		if left := g.left(); left != "" {
			t.Errorf("left running: %s", left)
		}
	})
	return g
}

// left returns the stack of a goroutine that does not end. It counts its looks: a limit of time could pass while the process stands
// still.
func (g Goroutines) left() (stack string) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for range looks {
		stack = g.find(func(stack string) bool { return !strings.Contains(stack, dialler) })
		if stack == "" {
			break
		}
		<-ticker.C
	}
	return stack
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

// VerifyMain runs the tests of a package, and ends the process with an error if goroutines are left. TestMain calls it with m.Run.
//
// It waits for goroutines that end late: a client of go-redis that was closed may dial for a second, and a page of package inspector
// keeps a slow read for up to a minute, for the next request.
func VerifyMain(run func() int, ignored ...goleak.Option) {
	goleak.VerifyTestMain(patient{run, ignored}, ignored...)
}

type patient struct {
	run     func() int
	ignored []goleak.Option
}

// Run runs the tests, and waits until their goroutines have ended.
func (p patient) Run() int {
	code := p.run()
	for began := time.Now(); code == 0 && time.Since(began) < 2*time.Minute; {
		if goleak.Find(p.ignored...) == nil {
			break
		}
	}
	return code
}

// Files returns a function that runs the tests with a directory of their own for temporary files, and fails if any are left in it.
// Users of other accounts, such as a database's server, can open files there by their names.
func Files(run func() int) func() int {
	return func() int {
		const passable = 0o711
		before := os.TempDir()
		dir, err := os.MkdirTemp(before, "lockmw-test-")
		if err == nil {
			err = os.Chmod(dir, passable)
		}
		if err == nil {
			err = os.Setenv("TMPDIR", dir)
		}
		if err != nil {
			panic(err)
		}
		defer func() {
			_ = os.RemoveAll(dir)
			_ = os.Setenv("TMPDIR", before)
		}()
		code := run()
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			fmt.Fprintln(os.Stderr, "left behind:", left, err)
			code = max(code, 1)
		}
		return code
	}
}
