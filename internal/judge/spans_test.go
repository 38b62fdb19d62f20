package judge

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestOverlapsAcrossProcessesAreFound(t *testing.T) {
	const s = time.Second
	grant := func(token int64, at, deadline time.Duration) Report {
		return Report{Event: Granted, Key: "k", Token: token, At: at, Deadline: deadline}
	}
	end := func(at, deadline time.Duration) Report {
		return Report{Event: Ended, Key: "k", At: at, Deadline: deadline}
	}
	reading := func(token int64, at, deadline time.Duration) Report {
		return Report{Event: Granted, Key: "k", Reads: true, Token: token, At: at, Deadline: deadline}
	}
	share := func(at time.Duration) Report { return Report{Event: Shared, Key: "k", At: at} }
	type process []Report
	for name, test := range map[string]struct {
		reports []process // one hold each, in order of arrival
		losses  []int64
		passed  bool
		want    string // part of the only violation; "" if there is none
	}{
		"one after the other":              {reports: []process{{grant(1, 1*s, 9*s), end(2*s, 9*s)}, {grant(2, 2*s, 9*s)}}},
		"reports that arrive late":         {reports: []process{{grant(2, 2*s, 9*s)}, {grant(1, 1*s, 9*s), end(2*s, 9*s)}}},
		"after the other's deadline":       {reports: []process{{grant(1, 1*s, 2*s), end(9*s, 2*s)}, {grant(2, 2*s, 9*s)}}},
		"before the end of the other":      {reports: []process{{grant(1, 1*s, 9*s), end(3*s, 9*s)}, {grant(2, 2*s, 9*s)}}, want: "granted 1s before the end of token 1"},
		"before the deadline of the other": {reports: []process{{grant(1, 1*s, 4*s)}, {grant(2, 2*s, 9*s)}}, want: "granted 2s before"},
		"before an extended deadline": {reports: []process{
			{grant(1, 1*s, 2*s), {Event: Renewed, Key: "k", Deadline: 5 * s}}, {grant(2, 2*s, 9*s)},
		}, want: "granted 3s before"},
		"a grant that is reported after its end": {reports: []process{{grant(2, 2*s, 9*s)}, {grant(1, 3*s, 3*s)}}},
		"a token that is used twice":             {reports: []process{{grant(2, 1*s, 2*s)}, {grant(2, 3*s, 9*s)}}, want: "token 2 after 2"},
		"a token that decreases":                 {reports: []process{{grant(2, 1*s, 2*s)}, {grant(1, 3*s, 9*s)}}, want: "token 1 after 2"},
		"on both sides of a loss":                {reports: []process{{grant(1, 1*s, 9*s)}, {grant(7, 2*s, 9*s)}}, losses: []int64{5}},
		"both after a loss":                      {reports: []process{{grant(6, 1*s, 9*s)}, {grant(7, 2*s, 9*s)}}, losses: []int64{5}, want: "before the end of token 6"},
		"a token from before a loss, after it":   {reports: []process{{grant(7, 1*s, 9*s)}, {grant(1, 2*s, 9*s)}}, losses: []int64{5}, want: "token 1 after 7"},
		"a writer, then readers": {reports: []process{
			{grant(2, 1*s, 9*s), end(2*s, 9*s)}, {reading(2, 2*s, 9*s), end(5*s, 9*s)}, {reading(2, 3*s, 9*s), end(4*s, 9*s)}, {grant(3, 5*s, 9*s)},
		}},
		"a reader during a writer":                             {reports: []process{{grant(2, 1*s, 9*s)}, {reading(2, 2*s, 9*s)}}, want: "granted 7s before the end of token 2"},
		"a writer while the first reader reads":                {reports: []process{{reading(1, 1*s, 9*s)}, {reading(1, 2*s, 3*s)}, {grant(2, 4*s, 9*s)}}, want: "granted 5s before the end of token 1"},
		"a reader with too small a token":                      {reports: []process{{grant(2, 1*s, 2*s)}, {reading(1, 3*s, 9*s)}}, want: "token 1 after 2"},
		"a writer with the readers' token":                     {reports: []process{{reading(2, 1*s, 2*s)}, {grant(2, 3*s, 9*s)}}, want: "token 2 after 2"},
		"a reader after a downgrade":                           {reports: []process{{grant(2, 1*s, 9*s), share(2 * s)}, {reading(2, 3*s, 9*s)}}},
		"a reader before a downgrade":                          {reports: []process{{grant(2, 1*s, 9*s), share(3 * s)}, {reading(2, 2*s, 9*s)}}, want: "granted 1s before the end of token 2"},
		"a writer after a downgrade":                           {reports: []process{{grant(2, 1*s, 9*s), share(2 * s)}, {grant(3, 3*s, 9*s)}}, want: "granted 6s before the end of token 2"},
		"a reader with a smaller token than a downgraded hold": {reports: []process{{grant(2, 1*s, 9*s), share(2 * s)}, {reading(1, 3*s, 9*s)}}, want: "token 1 after 2"},
		"a lock from before a loss, passed on":                 {reports: []process{{grant(7, 1*s, 9*s)}, {grant(1, 2*s, 9*s)}}, losses: []int64{5}, passed: true},
	} {
		t.Run(name, func(t *testing.T) {
			all := NewSpans()
			for _, loss := range test.losses {
				all.Lose(test.passed, loss)
			}
			for _, reports := range test.reports {
				var hold *Span
				for _, report := range reports {
					hold = all.Report(hold, report)
				}
			}
			got := all.Settle(math.MaxInt64)
			switch {
			case test.want == "" && len(got) > 0:
				t.Errorf("found %q", got)
			case test.want != "" && (len(got) != 1 || !strings.Contains(got[0].Text, test.want)):
				t.Errorf("found %q, want one with %q", got, test.want)
			}
		})
	}
}

func TestSpanOfAKilledProcessEnds(t *testing.T) {
	all, now := NewSpans(), time.Now()
	s := all.Report(nil, Report{Event: Granted, Key: "k", Token: 1, At: MachineTime(now), Deadline: MachineTime(now.Add(9 * time.Second))})
	all.End(s, now.Add(time.Second))
	all.Report(nil, Report{Event: Granted, Key: "k", Token: 2, At: MachineTime(now.Add(time.Second)), Deadline: MachineTime(now.Add(time.Minute))})
	if got := all.Settle(math.MaxInt64); len(got) > 0 {
		t.Errorf("found %q", got)
	}
}
