package workload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/bench/faulty"
	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/workload"
)

func TestIdempotentCallsAreTimedAndCounted(t *testing.T) {
	t.Parallel()
	s := use(t)
	for _, callers := range []int{1, 16} {
		for kind, most := range map[string]int64{"once": 2, "replay": 1} {
			name := fmt.Sprint(kind, callers)
			r := measure(t, s, name, lock(t, "lockmw-once"), brief)
			report := &r.Reports[0]
			if len(r.Reports) != 1 || len(report.Counts) != callers || report.Pairs < 1 || report.Latency.Count() != report.Pairs {
				t.Errorf("%s: %d reports, counts are %v, %d timed of %d", name, len(r.Reports), report.Counts, report.Latency.Count(), report.Pairs)
			}
			if sent := sentCommands(r); sent < 1 || sent > most*report.Pairs+50 {
				t.Errorf("%s: %d commands for %d calls", name, sent, report.Pairs)
			}
		}
	}
}

func TestWorkThatRunsAgainIsAnError(t *testing.T) {
	t.Parallel()
	s := use(t)
	for _, tt := range []struct {
		workload string
		library  library.Library
		says     string
	}{
		{"replay1", faulty.Repeating, "the work of 1 keys ran"},
		{"replay16", faulty.Repeating, "the work of 16 keys ran"},
		{"once1", faulty.Mixed, `the answer "mixed"`},
	} {
		if _, err := named(t, tt.workload).Measure(t.Context(), s, tt.library, brief); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s, %s: %v", tt.workload, tt.library.Name, err)
		}
	}
	measure(t, s, "once1", faulty.Repeating, brief) // all keys are new
}

func TestMistakesOfIdempotentCallsAreCounted(t *testing.T) {
	t.Parallel()
	s := use(t)
	for _, tt := range []struct {
		library                    library.Library
		one, two, afterCrash, fail float64
		answered                   float64
		request, scope             float64
	}{
		{lock(t, "lockmw-once"), 1, 1, 1, 1, 1, 0, 0},
		{lock(t, "lockmw-http"), 1, 1, 1, 1, 1, 0, 0},
		{lock(t, "setnx"), 1, 1, 1, 1, 1.0 / 16, 1, 0},
		{lock(t, "fiber"), 1, 2, 2, 2, 1, 1, 1},
		{lock(t, "fiber-redsync"), 1, 1, 2, 2, 1, 1, 1},
		{lock(t, "redis-cache"), 1, 2, 2, 2, 1, 1, 0},
		{faulty.Repeating, 16, 16, 2, 2, 1, 0, 0},
		{faulty.Mixed, 16, 16, 2, 2, 0, 1, 1},
	} {
		more := measure(t, s, "oncefaults", tt.library, brief).Reports[0].More
		for name, want := range map[string]float64{
			workload.EffectsOfOne: tt.one, workload.EffectsOfTwo: tt.two, workload.AfterCrash: tt.afterCrash,
			workload.AfterError: tt.fail, workload.Answered: tt.answered, workload.OtherRequest: tt.request, workload.OtherScope: tt.scope,
		} {
			if got, ok := more[name]; !ok || got != want {
				t.Errorf("%s: %s is %v, want %v", tt.library.Name, name, got, want)
			}
		}
	}
}

func TestAMistakeOfThisModuleIsAnError(t *testing.T) {
	t.Parallel()
	_, err := named(t, "oncefaults").Measure(t.Context(), use(t), faulty.OursRepeating, brief)
	if err == nil || !strings.Contains(err.Error(), "a mistake of lockmw: effects_") {
		t.Error(err)
	}
}
