package report_test

import (
	"math"
	"testing"

	"github.com/lockmw/go/internal/bench/report"
)

func TestGoalsOfKeysThatAreWaitedFor(t *testing.T) {
	type values = map[string]float64
	waited := func(size string, commands, served, share float64) report.Figures {
		return figures("waited"+size, "lockmw", values{
			"rest_cmds_per_s": commands, "rest_redis_cores": 0.025, "ping_p99_us": 2000, "queued_share": 1, "served_ms": served,
			"served_share": share, "longest_gap_ms": 1001, "scripts_per_lock": 1.5, "failed_calls": 0,
		})
	}
	onTheirWay := waited("40k", 1, 16_000, 0.5)
	onTheirWay.Values["queued_share"] = 0.9
	outcomes := judged(
		waited("10k", 701, 500, 1), onTheirWay, waited("80k", 8*701, 64_000, 0.25), waited("10k-half", 0, 1000, 1), waited("200k-half", 0, 20_000, 1),
	)
	wantJudged(t, outcomes, map[string]judgement{
		"waited10k commands/s at rest":                      {701, report.Missed},
		"waited10k cores of the server at rest":             {0.025, report.Missed},
		"waited80k cores of the server at rest":             {0.025, report.Met},
		"waited10k PING of another client at rest, p99, ms": {2, report.Met},
		"waited40k share that waits after 60 s":             {0.9, report.Missed},
		"waited40k commands/s at rest":                      {math.NaN(), report.NotMeasured},
		"waited40k PING of another client at rest, p99, ms": {math.NaN(), report.NotMeasured},
		"waited80k share that waits after 60 s":             {1, report.Met},
		"waited80k share that is served after 60 s":         {0.25, report.Missed},
		"waited10k all are served after, ms":                {500, report.Met},
		"waited10k longest time without a grant, ms":        {1001, report.Missed},
		"waited10k scripts for each lock":                   {1.5, report.Met},
		"waited10k calls that fail":                         {0, report.Met},
		"waited80k exponent of commands at rest":            {1, report.Met},
		"waited80k exponent of the time to serve all":       {3, report.Missed}, // 128 times as long for a quarter of the waiters: 512 times in all
		"waited200k-half exponent of the time to serve all": {1, report.Met},
		"waited200k-half share that is served after 60 s":   {1, report.Met},
		"waited10k-half longest time without a grant, ms":   {1001, report.Missed},
	})
	full := waited("80k", 1, 1, 0)
	full.Values["queued_share"] = 0.9
	if o := judged(waited("2k", 1, 1, 1), waited("10k", 1, 1, 1), full)["waited80k exponent of commands at rest"]; o.State != report.NotMeasured {
		t.Errorf("with small sizes alone: %v", o)
	}
	if o := judged(waited("80k", 1, 1, 0))["waited80k exponent of the time to serve all"]; o.State != report.NotMeasured {
		t.Errorf("with one size: %v", o)
	}
	if o := judged(waited("10k", 1, 1, 1), waited("80k", 1, 1, 0))["waited80k exponent of the time to serve all"]; o.State != report.Missed {
		t.Errorf("with no waiter served: %v", o)
	}
}
