package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockmw/go/internal/test/integration/collector"
	"github.com/lockmw/go/tracing"
)

// checkMetrics checks that the metrics of both processes add up to the calls.
func (s *stage) checkMetrics(points []collector.Point, spans []collector.Span) {
	s.t.Helper()
	names := make(map[collector.ID]string)
	for _, span := range spans {
		names[span.ID] = span.Name
	}
	got, want := make(map[string]uint64), make(map[string]uint64)
	for _, c := range s.calls {
		want[fmt.Sprint("distributed_lock.wait.duration of ", c.nameOf(), ", ", c.modeOf(), ": ", c.outcomeOf())]++
		if c.outcome == "" {
			want[fmt.Sprint("distributed_lock.hold.duration of ", c.nameOf(), ", ", c.modeOf(), ": ", c.endingOf())]++
		}
	}
	counters := make(map[string]int)
	for _, p := range collector.Latest(points) {
		if p.Scope.Name != tracing.ScopeName || p.Scope.Version != tracing.Version() {
			s.t.Errorf("scope of %s is %v", p.Metric, p.Scope)
		}
		allowed := []string{"distributed_lock.mode", "distributed_lock.name", "distributed_lock.outcome"}
		span := "acquire_lock "
		switch p.Metric {
		case "distributed_lock.hold.duration":
			span = "hold_lock "
			fallthrough
		case "distributed_lock.wait.duration":
			got[fmt.Sprint(p.Metric, " of ", p.Attributes["distributed_lock.name"], ", ",
				p.Attributes["distributed_lock.mode"], ": ", p.Attributes["distributed_lock.outcome"])] += p.Count
			if len(p.Exemplars) == 0 || p.Unit != "s" || p.Kind != "histogram" {
				s.t.Errorf("%d exemplars, unit %q, a %s, want some, s, a histogram: %+v", len(p.Exemplars), p.Unit, p.Kind, p)
			}
		case "distributed_lock.held":
			span = "hold_lock "
			fallthrough
		case "distributed_lock.waiters":
			allowed = allowed[:2]
			counters[p.Metric]++
			if p.Value != 0 || p.Kind != "sum" || p.Monotonic {
				s.t.Errorf("%s is %v at the end, want an up-down counter at 0: %+v", p.Metric, p.Value, p)
			}
		default:
			s.t.Errorf("a metric %s", p.Metric)
		}
		if keys := slices.Sorted(maps.Keys(p.Attributes)); !slices.Equal(keys, allowed) {
			s.t.Errorf("%s has attributes %v, want %v", p.Metric, keys, allowed)
		}
		for _, e := range p.Exemplars {
			if want := span + fmt.Sprint(p.Attributes["distributed_lock.name"]); names[e.ID] != want || len(e.Attributes) != 0 {
				s.t.Errorf("%s: exemplar of %q with attributes %v, want %q and none", p.Metric, names[e.ID], e.Attributes, want)
			}
		}
	}
	if !maps.Equal(got, want) {
		s.t.Errorf("counts are\n%v, want\n%v", got, want)
	}
	if counters["distributed_lock.held"] == 0 || counters["distributed_lock.waiters"] == 0 {
		s.t.Errorf("no up-down counters: %v", counters)
	}
}

// checkKeys checks that in text, which is everything exported, the marker occurs only in the keys of spans.
func (s *stage) checkKeys(text string, spans []collector.Span) {
	s.t.Helper()
	want := 0
	for _, span := range spans {
		if key, _ := span.Attributes["distributed_lock.key"].(string); strings.Contains(key, s.marker) {
			want++
		}
	}
	if got := strings.Count(text, s.marker); got != want {
		s.t.Errorf("the key is exported %d times, and %d times as the key of a span", got, want)
	}
}
