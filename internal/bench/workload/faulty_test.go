package workload_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/bench/crew"
	"github.com/lockmw/go/internal/bench/faulty"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/bench/workload"
)

func TestContextsCanBeEndless(t *testing.T) {
	t.Parallel()
	o := brief
	o.Background = true
	s := use(t)
	measure(t, s, "solo", lockmw(t), o)
	o.Grace = time.Second
	_, err := measureUntil(t, s, "hot32", faulty.Forgetful, o, failed)
	if !errors.Is(err, crew.ErrHung) {
		t.Errorf("a wait without an end is %v", err)
	}
}

func TestLibraryThatDoesNotExcludeIsCaught(t *testing.T) {
	t.Parallel()
	s := use(t)
	for _, name := range []string{"hot32", "hot4x8", "idle1000", "queue10", "rwread32", "rw4x8"} {
		if err := violation(t, s, name, faulty.Open); !errors.Is(err, workload.ErrExclusion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// In these a lock of each process does not exclude the other processes.
	for _, name := range []string{"hot4x8", "queue10"} {
		if err := violation(t, s, name, faulty.Sound); !errors.Is(err, workload.ErrExclusion) {
			t.Errorf("%s, a lock of one process only: %v", name, err)
		}
	}
	if err := violation(t, s, "rw4x8", faulty.Careless); !errors.Is(err, workload.ErrExclusion) {
		t.Errorf("readers next to a writer: %v", err)
	}
	for name, l := range map[string]library.Library{"hot32": faulty.Sound, "rwread32": faulty.Careless} {
		if _, err := named(t, name).Measure(t.Context(), s, l, brief); err != nil {
			t.Errorf("a sound lock in %s: %v", name, err)
		}
	}
}

// violation measures until there is an error.
func violation(t *testing.T, s *server.Server, name string, l library.Library) error {
	t.Helper()
	_, err := measureUntil(t, s, name, l, brief, failed)
	return err
}

func failed(_ *workload.Round, err error) bool { return err != nil }

// measureUntil measures until the result shows the fault of a library: on a busy machine, calls may not overlap by chance, or begin
// too late.
func measureUntil(t *testing.T, s *server.Server, name string, l library.Library, o workload.Options,
	shown func(*workload.Round, error) bool,
) (r *workload.Round, err error) {
	t.Helper()
	for range 20 {
		if r, err = named(t, name).Measure(t.Context(), s, l, o); shown(r, err) {
			break
		}
	}
	return r, err
}

func TestLibraryThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	s := use(t)
	for _, grace := range []time.Duration{300 * time.Millisecond, -time.Minute} { // also if the deadline passes while the process starts
		_, err := named(t, "solo").Measure(t.Context(), s, faulty.Deaf, workload.Options{Duration: 20 * time.Millisecond, Grace: grace})
		if !errors.Is(err, crew.ErrHung) {
			t.Errorf("%v: the error is %v", grace, err)
		}
	}
}

func TestLostWaitersAreReported(t *testing.T) {
	t.Parallel()
	waited := func(r *workload.Report) bool { return r.Stranded > 0 && r.Latency.Max() >= 2*time.Second }
	r, err := measureUntil(t, use(t), "hot32", faulty.Forgetful, brief, func(r *workload.Round, err error) bool {
		return err != nil || waited(&r.Reports[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	report := &r.Reports[0]
	if !waited(report) {
		t.Errorf("%d stranded, the longest wait was %v", report.Stranded, report.Latency.Max())
	}
	if report.Pairs != report.Latency.Count()-report.Stranded {
		t.Errorf("%d pairs, %d waits, %d of them in vain", report.Pairs, report.Latency.Count(), report.Stranded)
	}
}

func TestLostWaitersOfAHandOverAskAgain(t *testing.T) {
	t.Parallel()
	r := measure(t, use(t), "handoff", faulty.Dozing, brief)
	var stranded int64
	for i := range r.Reports {
		stranded += r.Reports[i].Stranded
	}
	if first := &r.Reports[0]; stranded == 0 || first.Latency.Max() < time.Second || first.Pairs != first.Latency.Count() {
		t.Errorf("%d stranded, the longest of %d of %d hand-overs took %v",
			stranded, first.Latency.Count(), first.Pairs, first.Latency.Max())
	}
}

func TestLibraryThatLosesItsOnlyCallerIsReported(t *testing.T) {
	t.Parallel()
	if r := measure(t, use(t), "spread64", faulty.Dozing, brief); r.Reports[0].Stranded == 0 {
		t.Errorf("no waiter was stranded: %+v", r.Reports[0])
	}
}

func TestLostWaitersOfAQueueAreReported(t *testing.T) {
	t.Parallel()
	// The locks of the processes do not exclude one another, which is a further error.
	r, err := named(t, "queue10").Measure(t.Context(), use(t), faulty.Forgetful, brief)
	if r == nil || !errors.Is(err, workload.ErrExclusion) {
		t.Fatal(r, err)
	}
	var stranded int64
	for i := range r.Reports {
		stranded += r.Reports[i].Stranded
	}
	if stranded == 0 {
		t.Error("no waiter was stranded")
	}
}

func TestRefusalIsAnError(t *testing.T) {
	t.Parallel()
	_, err := named(t, "solo").Measure(t.Context(), use(t), faulty.Refusing, brief)
	if err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("the error is %v", err)
	}
}
