package workload_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/faulty"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/bench/workload"
	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{})
	crew.Main(workload.Work(libraries(), workload.All()))
	leak.VerifyMain(m.Run)
}

func libraries() []library.Library {
	return slices.Concat(library.All(), faulty.All(), faulty.Callers())
}

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

func lockmw(t *testing.T) library.Library { return lock(t, "lockmw") }

func lock(t *testing.T, name string) library.Library {
	t.Helper()
	for _, l := range library.All() {
		if l.Name == name {
			return l
		}
	}
	t.Fatalf("there is no library %q", name)
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

var brief = workload.Options{Duration: 50 * time.Millisecond, Grace: time.Minute}

// sentCommands is how many commands the calls of lockmw have sent: all but EVAL, by which it loads scripts, and examines the server a
// second after its first lock. On a busy machine that is in the window.
func sentCommands(r *workload.Round) int64 { return r.Stats.Sent(nil) - r.Stats.Calls["eval"] }

// measure makes a measurement that should succeed.
func measure(t *testing.T, s *server.Server, name string, l library.Library, o workload.Options) *workload.Round {
	t.Helper()
	r, err := named(t, name).Measure(t.Context(), s, l, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

const maxShared = 64 // the greatest number of locks that share a command

func TestPairsAreTimedAndCounted(t *testing.T) {
	t.Parallel()
	s, o := use(t), brief
	o.Duration = 500 * time.Millisecond // on a busy machine no pair may end in a shorter one
	for name, goroutines := range map[string]int{"solo": 1, "spread64": 64} {
		least := 2.0 // commands for each pair
		if goroutines > 1 {
			least = 1.0 / maxShared
		}
		r := measure(t, s, name, lockmw(t), o)
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
		if sent := sentCommands(r); float64(sent) < least*float64(report.Pairs) || sent > 3*report.Pairs+20 {
			t.Errorf("%s: %d commands for %d pairs", name, sent, report.Pairs)
		}
		if report.Allocs <= 0 || report.Elapsed != o.Duration || report.Stranded != 0 {
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

func TestTurnsAreCountedWhileTheQueueIsFull(t *testing.T) {
	t.Parallel()
	s, o := use(t), brief
	o.Duration = 500 * time.Millisecond // on a busy machine a shorter one may have no turn
	for _, name := range []string{"queue10", "queue1000"} {
		r := measure(t, s, name, lock(t, "lockmw-fair"), o)
		if len(r.Reports) != 5 {
			t.Fatalf("%s: %d reports", name, len(r.Reports))
		}
		first := &r.Reports[0]
		if n := first.Pairs; n < 1 || len(first.Counts) != 1 || first.Counts[0] != n || first.Elapsed < o.Duration {
			t.Errorf("%s: %d turns, counted %v in %v", name, n, first.Counts, first.Elapsed)
		}
		if sent := sentCommands(r); sent < 1 || sent > 4*first.Pairs+100 {
			t.Errorf("%s: %d commands for %d turns: %v", name, sent, first.Pairs, r.Stats.Calls)
		}
		var timed, stranded int64
		for i := range r.Reports {
			if i > 0 && (r.Reports[i].Pairs != 0 || r.Reports[i].Counts != nil) {
				t.Errorf("%s: turns were counted twice", name)
			}
			timed += r.Reports[i].Latency.Count()
			stranded += r.Reports[i].Stranded
		}
		if timed < 1 || stranded != 0 || first.Latency.Max() > time.Minute {
			t.Errorf("%s: %d timed, %d stranded, the longest took %v", name, timed, stranded, first.Latency.Max())
		}
		if other, ok := first.More["from_other_process"]; !ok || other < 0.5 {
			t.Errorf("%s: of %d processes, %v of the turns came from another one", name, len(r.Reports), other)
		}
	}
}

func TestReadersOfOneKeyAreCounted(t *testing.T) {
	t.Parallel()
	s := use(t)
	for name, goroutines := range map[string]int{"rwread1": 1, "rwread32": 32} {
		r := measure(t, s, name, lock(t, "lockmw-rw"), brief)
		if report := &r.Reports[0]; len(report.Counts) != goroutines || report.Latency.Count() != report.Pairs {
			t.Errorf("%s: counted %v, %d timed of %d", name, report.Counts, report.Latency.Count(), report.Pairs)
		}
	}
}

func TestReadersAndWritersContendForOneKey(t *testing.T) {
	t.Parallel()
	s := use(t)
	for _, name := range []string{"lockmw", "lockmw-rw"} {
		r := measure(t, s, "rw4x8", lock(t, name), brief)
		if len(r.Reports) != 4 {
			t.Fatalf("%s: %d reports", name, len(r.Reports))
		}
		for i := range r.Reports {
			if n := len(r.Reports[i].Counts); n != 8 || r.Reports[i].Pairs == 0 {
				t.Errorf("%s, process %d: %d goroutines, %d pairs", name, i, n, r.Reports[i].Pairs)
			}
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

func TestEightKeysTakeAsManyCommandsAsOne(t *testing.T) {
	t.Parallel()
	o := brief
	o.Duration = 500 * time.Millisecond // on a busy machine a shorter one has few pairs, next to what is sent only once
	r := measure(t, use(t), "all8", lockmw(t), o)
	report := r.Reports[0]
	if sent := sentCommands(r); sent < 2*report.Pairs || sent > 3*report.Pairs {
		t.Errorf("%d commands for %d pairs: %v", sent, report.Pairs, r.Stats.Calls)
	}
	for _, name := range []string{"lock_vs_one", "unlock_vs_one"} {
		if ratio := report.More[name]; ratio <= 0 {
			t.Errorf("%s is %v", name, ratio)
		}
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
	for _, name := range []string{"goroutines_per_hold", workload.HeapPerHold, workload.RedisMemory, workload.PingP99, workload.PingMax, workload.CloseMillis} {
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

func TestThePageIsOnASecondProcess(t *testing.T) {
	t.Parallel()
	s := use(t)
	for name, on := range map[string]bool{"spread64-page": true, "spread64-nopage": false} {
		r := measure(t, s, name, lockmw(t), brief)
		if len(r.Reports) != 2 || r.Reports[0].Pairs == 0 || r.Reports[1].Pairs != 0 {
			t.Fatalf("%s: the reports are %+v", name, r.Reports)
		}
		if scans := r.Reports[1].More["scans_per_s"]; on != (scans > 0) {
			t.Errorf("%s: %v SCANs a second", name, scans)
		}
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
