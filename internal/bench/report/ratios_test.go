package report_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/bench/report"
)

func TestRatiosAreMediansOverTheRounds(t *testing.T) {
	of := func(workload, library string, p50 ...float64) report.Figures {
		f := report.Figures{Workload: workload, Library: library}
		for _, v := range p50 {
			f.Rounds = append(f.Rounds, map[string]float64{report.P50: v})
		}
		return f
	}
	failed := of("replay", "broken", 1, 1, 1)
	failed.Err = errors.New("hung")
	all := []report.Figures{
		of("once", "ours", 20, 90, 30), of("once", "floor", 10, 30, 10),
		of("replay", "ours", 4, 2), of("replay", "floor", 1, 1), of("replay", "other", 2, 2), failed,
		of("solo", "ours", 1), of("faults", "ours"), of("faults", "floor"), // without a base; without figures
	}
	var out strings.Builder
	if err := report.Ratios(&out, all, []string{"other", "floor"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"workload library / base p50 range ops/s range redis µs/op range",
		"once ours / floor 3.00 2.00 to 3.00 – – – –",
		"replay ours / other 1.50 1.00 to 2.00 – – – –",
		"replay floor / other 0.50 0.50 to 0.50 – – – –",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}
