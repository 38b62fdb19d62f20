package leak_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/test/leak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A recorded test keeps its errors and cleanups for another test to inspect.
type recorded struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorded) Name() string     { return "Recorded" }
func (r *recorded) Helper()          {}
func (r *recorded) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorded) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// run runs test in a goroutine of its own, as the testing package does.
func (r *recorded) run(test func(t testing.TB)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
		for i := range r.cleanups {
			r.cleanups[len(r.cleanups)-1-i]()
		}
	}()
	<-done
}

// starts returns when a goroutine is in blocks, where it stays until stop is closed.
func starts(stop chan struct{}) {
	started := make(chan struct{})
	go blocks(started, stop)
	<-started
}

func blocks(started, stop chan struct{}) {
	close(started)
	<-stop
}

func TestALeftGoroutineFailsOnlyItsTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		var guilty, innocent recorded
		innocent.run(func(t testing.TB) {
			leak.Check(t)
			guilty.run(func(t testing.TB) {
				leak.Check(t)
				done := make(chan struct{})
				go func() { // ends before the goroutine that it starts
					defer close(done)
					starts(stop)
				}()
				<-done
			})
		})
		if len(guilty.errors) != 1 || !strings.Contains(guilty.errors[0], "leak_test.blocks") {
			t.Errorf("errors of the test that leaves a goroutine: %q", guilty.errors)
		}
		if len(innocent.errors) != 0 {
			t.Errorf("errors of the other test: %q", innocent.errors)
		}
	})
}

func TestEndingGoroutinesAreAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorded
		r.run(func(t testing.TB) {
			leak.Check(t)
			go time.Sleep(time.Second)
		})
		if len(r.errors) != 0 {
			t.Errorf("the test has failed with %q", r.errors)
		}
	})
}

func TestGoroutinesAreFoundByTheirFunctions(t *testing.T) {
	stop := make(chan struct{})
	var r recorded
	r.run(func(testing.TB) {
		all := leak.Check(&r)
		starts(stop)
		if all.In("leak_test.blocks") == "" {
			t.Error("the goroutine is not found")
		}
		if stack := all.In("leak_test.another"); stack != "" {
			t.Errorf("found %s", stack)
		}
		if (leak.Goroutines{}).In("leak_test.blocks") == "" {
			t.Error("the goroutine is not found among all")
		}
		close(stop)
	})
	if len(r.errors) != 0 {
		t.Errorf("the test has failed with %q", r.errors)
	}
}
