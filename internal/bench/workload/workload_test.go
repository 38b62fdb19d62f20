package workload_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/faulty"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/bench/workload"
	"github.com/lockmw/go/internal/redistest"
)

func TestMain(m *testing.M) {
	if crew.Called() {
		os.Exit(crew.Work(workload.Work(libraries(), workload.All())))
	}
	goleak.VerifyTestMain(m)
}

func libraries() []library.Library { return append(library.All(), faulty.All()...) }

func named(t *testing.T, name string) *workload.Workload {
	t.Helper()
	for _, w := range workload.All() {
		if w.Name == name {
			return &w
		}
	}
	t.Fatalf("there is no workload %q", name)
	return nil
}

func lockmw(t *testing.T) library.Library {
	t.Helper()
	for _, l := range library.All() {
		if l.Name == "lockmw" {
			return l
		}
	}
	t.Fatal("there is no lockmw")
	return library.Library{}
}

func use(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.Use(t.Context(), redistest.Redis(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var brief = workload.Options{Duration: 50 * time.Millisecond, Grace: 20 * time.Second}

// measure measures what is expected to work.
func measure(t *testing.T, s *server.Server, name string, l library.Library, o workload.Options) *workload.Round {
	t.Helper()
	r, err := named(t, name).Measure(t.Context(), s, l, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// maxShared is how many locks at most share a command.
const maxShared = 64

func TestPairsAreTimedAndCounted(t *testing.T) {
	t.Parallel()
	s := use(t)
	for name, goroutines := range map[string]int{"solo": 1, "spread64": 64} {
		least := 2.0 // commands for each pair
		if goroutines > 1 {
			least = 1.0 / maxShared
		}
		r := measure(t, s, name, lockmw(t), brief)
		report := &r.Reports[0]
		if len(r.Reports) != 1 || len(report.Counts) != goroutines {
			t.Fatalf("%s: %d reports, counts are %v", name, len(r.Reports), report.Counts)
		}
		var counted int64
		for _, n := range report.Counts {
			counted += n
		}
		if report.Latency.Count() != report.Pairs || counted < 1 || counted > report.Pairs {
			t.Errorf("%s: %d timed, %d in time, of %d", name, report.Latency.Count(), counted, report.Pairs)
		}
		if sent := r.Stats.Sent(nil); float64(sent) < least*float64(report.Pairs) || sent > 3*report.Pairs+20 {
			t.Errorf("%s: %d commands for %d pairs", name, sent, report.Pairs)
		}
		if report.Allocs <= 0 || report.Elapsed != brief.Duration || report.Stranded != 0 {
			t.Errorf("%s: %d allocations, %v, %d stranded", name, report.Allocs, report.Elapsed, report.Stranded)
		}
	}
}

func TestProcessesContendForOneKey(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "hot4x8", lockmw(t), brief)
	if len(r.Reports) != 4 {
		t.Fatalf("%d reports", len(r.Reports))
	}
	for i := range r.Reports {
		if n := len(r.Reports[i].Counts); n != 8 || r.Reports[i].Pairs == 0 {
			t.Errorf("process %d: %d goroutines, %d pairs", i, n, r.Reports[i].Pairs)
		}
	}
}

func TestHandOverIsTimedInTurns(t *testing.T) {
	t.Parallel()
	s := use(t)
	for _, l := range library.All() {
		if l.Name != "lockmw" && l.Name != "pubsub" {
			continue
		}
		r := measure(t, s, "handoff", l, brief)
		report := &r.Reports[0]
		if report.Latency.Count() < 1 || report.Latency.Count() != report.Pairs {
			t.Errorf("%s: %d timed, %d counted", l.Name, report.Latency.Count(), report.Pairs)
		}
		if sent := r.Stats.Sent(l.Sends); sent < report.Pairs {
			t.Errorf("%s: %d commands for %d hand-overs", l.Name, sent, report.Pairs)
		}
	}
}

func TestReentrySendsNothing(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "reentry", lockmw(t), brief)
	if n := r.Stats.All(); n != 0 || r.Reports[0].Pairs < 1000 {
		t.Errorf("%d commands for %d pairs: %v", n, r.Reports[0].Pairs, r.Stats.Calls)
	}
}

func TestIdleWaitersAreCountedWhileTheyWait(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "idle1000", lockmw(t), brief)
	if len(r.Reports) != 2 || r.Window < 1500*time.Millisecond {
		t.Fatalf("%d reports for %v", len(r.Reports), r.Window)
	}
	if sent := float64(r.Stats.Sent(nil)); sent < 1 || sent > 10*r.Window.Seconds() {
		t.Errorf("%v commands in %v: %v", sent, r.Window, r.Stats.Calls)
	}
}

func TestHoldsAreWeighedAndRenewed(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "held10k", lockmw(t), brief)
	more := r.Reports[0].More
	for _, name := range []string{"goroutines_per_hold", "heap_per_hold_bytes", "pipelines_per_tick"} {
		if _, ok := more[name]; !ok {
			t.Errorf("there is no %s in %v", name, more)
		}
	}
	if heap := more["heap_per_hold_bytes"]; heap < 100 || heap > 10_000 {
		t.Errorf("a hold takes %v bytes", heap)
	}
	if renewed := r.Stats.Sent(nil); renewed < 10_000 {
		t.Errorf("%d commands renewed 10000 holds", renewed)
	}
}

func TestDistanceIsFelt(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "solo-rtt1ms", lockmw(t), brief)
	if p50 := r.Reports[0].Latency.Percentile(50); p50 < 2*time.Millisecond {
		t.Errorf("two round trips of a millisecond take %v", p50)
	}
}

func TestProfilesAreWritten(t *testing.T) {
	t.Parallel()
	o := brief
	o.Profile = t.TempDir()
	measure(t, use(t), "solo", lockmw(t), o)
	for _, kind := range []string{"cpu", "allocs", "mutex"} {
		name := filepath.Join(o.Profile, "solo.lockmw.0."+kind+".pprof")
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestContextsCanBeOnesThatNeverEnd(t *testing.T) {
	t.Parallel()
	o := brief
	o.Background = true
	s := use(t)
	measure(t, s, "solo", lockmw(t), o)
	_, err := named(t, "hot32").Measure(t.Context(), s, faulty.Forgetful, workload.Options{
		Duration: 20 * time.Millisecond, Grace: time.Second, Background: true,
	})
	if !errors.Is(err, crew.ErrHung) {
		t.Errorf("a wait without an end is %v", err)
	}
}

func TestLibraryThatDoesNotExcludeIsCaught(t *testing.T) {
	t.Parallel()
	s := use(t)
	for _, name := range []string{"hot32", "hot4x8", "idle1000"} {
		r, err := named(t, name).Measure(t.Context(), s, faulty.Open, brief)
		if !errors.Is(err, workload.ErrExclusion) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	// In this one a lock of each process does not exclude the other processes.
	if _, err := named(t, "hot4x8").Measure(t.Context(), s, faulty.Sound, brief); !errors.Is(err, workload.ErrExclusion) {
		t.Errorf("a lock of one process only: %v", err)
	}
	if _, err := named(t, "hot32").Measure(t.Context(), s, faulty.Sound, brief); err != nil {
		t.Errorf("a sound lock: %v", err)
	}
}

func TestLibraryThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	_, err := named(t, "solo").Measure(t.Context(), use(t), faulty.Deaf, workload.Options{
		Duration: 20 * time.Millisecond, Grace: 300 * time.Millisecond,
	})
	if !errors.Is(err, crew.ErrHung) {
		t.Errorf("the error is %v", err)
	}
}

func TestForgottenWaitersAreReported(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "hot32", faulty.Forgetful, brief)
	report := &r.Reports[0]
	if report.Stranded == 0 || report.Latency.Max() < 2*time.Second {
		t.Errorf("%d stranded, the longest wait was %v", report.Stranded, report.Latency.Max())
	}
	if report.Pairs != report.Latency.Count()-report.Stranded {
		t.Errorf("%d pairs, %d waits, %d of them in vain", report.Pairs, report.Latency.Count(), report.Stranded)
	}
}

func TestRefusalIsAnError(t *testing.T) {
	t.Parallel()
	_, err := named(t, "solo").Measure(t.Context(), use(t), faulty.Refusing, brief)
	if err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("the error is %v", err)
	}
}
