package report_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/report"
	"github.com/lockmw/go/internal/bench/server"
	"github.com/lockmw/go/internal/bench/workload"
)

// round returns a round in which two goroutines made so many pairs of 1 ms each in a second.
func round(first, second int64) *workload.Round {
	r := workload.Report{
		Elapsed: time.Second, Counts: []int64{first, second}, Pairs: first + second,
		Allocs: 10 * (first + second), Bytes: 1000 * (first + second),
	}
	for range first + second {
		r.Latency.Record(time.Millisecond)
	}
	return &workload.Round{
		Reports: []workload.Report{r}, Window: time.Second,
		Stats: server.Stats{
			Calls: map[string]int64{"evalsha": first + second, "set": first + second, "get": first + second},
			CPU:   time.Duration(first+second) * 20 * time.Microsecond,
		},
	}
}

var (
	hot = &workload.Workload{Name: "hot32"}
	raw = library.Library{Name: "raw", Sends: []string{"set"}}
)

func TestFiguresAreThoseOfAllRounds(t *testing.T) {
	slow := round(10, 10)
	slow.Reports[0].Latency.Record(5 * time.Second)
	slow.Reports[0].Stranded = 1
	f := report.Sum(hot, raw, []*workload.Round{round(50, 30), slow})
	jain := 80.0 * 80 / (2 * (50*50 + 30*30)) // of the less fair round
	for name, want := range map[string]float64{
		report.OpsPerS: 50, report.P50: 1000, report.Longest: 5e6, report.CmdsPer: 2, report.AllCmds: 3,
		report.RedisCPU: 20, report.Allocs: 10, report.Bytes: 1000, report.Jain: jain, report.Stranded: 1,
	} {
		if got := f.Values[name]; math.Abs(got-want) > want/500 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if len(f.Rounds) != 2 || f.Rounds[0][report.OpsPerS] != 80 || f.Rounds[1][report.OpsPerS] != 20 {
		t.Errorf("the rounds are %v", f.Rounds)
	}
}

func TestProcessesOfARoundWorkAtTheSameTime(t *testing.T) {
	r := round(10, 10)
	r.Reports = append(r.Reports, r.Reports[0])
	if got := report.Sum(hot, raw, []*workload.Round{r}).Values[report.OpsPerS]; got != 40 {
		t.Errorf("two processes of 20 pairs a second make %v", got)
	}
}

func TestWorkWithoutPairsHasCommandsPerSecond(t *testing.T) {
	r := &workload.Round{
		Reports: []workload.Report{{}, {More: map[string]float64{"heap": 7}}}, Window: 2 * time.Second,
		Stats: server.Stats{Calls: map[string]int64{"evalsha": 3, "set": 5}},
	}
	f := report.Sum(&workload.Workload{Name: "idle1000"}, library.Library{Name: "lockmw"}, []*workload.Round{r})
	if len(f.Values) != 2 || f.Values[report.CmdsPerS] != 1.5 || f.Values["heap"] != 7 {
		t.Errorf("figures are %v", f.Values)
	}
}

func TestFiguresAsJSON(t *testing.T) {
	f := report.Figures{
		Workload: "solo", Library: `"raw"`, Err: errors.New("no luck"),
		Values: map[string]float64{"ops_per_s": 1234.56789, "p50_us": 0.2, "zeal": 1, "extra": 3},
	}
	const want = `{"workload":"solo","library":"\"raw\"","ops_per_s":1234.568,"p50_us":0.2,"p99_us":null,` +
		`"max_us":null,"cmds_per_op":null,"jain":null,"extra":3,"zeal":1,"error":"no luck"}`
	if b, err := json.Marshal(f); err != nil || string(b) != want {
		t.Errorf("got  %s, %v\nwant %s", b, err, want)
	}
}

func TestFiguresAsTable(t *testing.T) {
	var b strings.Builder
	err := report.Table(&b, []report.Figures{
		{Workload: "solo", Library: "raw", Values: map[string]float64{"ops_per_s": 12345.6, "p50_us": 45.67, "redis_calls_per_op": 4}},
		{Workload: "solo", Library: "lockmw", Values: map[string]float64{"ops_per_s": 0.125, "cmds_per_op": 2, "extra": 1.5}},
		{Workload: "hot32", Library: "raw", Err: errors.New("no luck")},
	})
	const want = `
  workload  library  ops/s  p50 µs  p99 µs  max µs  cmds/op  Jain  redis µs/op  allocs/op
      solo      raw  12346    45.7       –       –        –     –            –          –
      solo   lockmw  0.125       –       –       –        2     –            –          –  extra 1.50

     hot32      raw      –       –       –       –        –     –            –          –  FAILED: no luck
`
	if got := "\n" + b.String(); err != nil || got != want {
		t.Errorf("%v, got:%swant:%s", err, got, want)
	}
}

// judged returns the outcomes by workload and goal.
func judged(all ...report.Figures) map[string]report.Outcome {
	m := make(map[string]report.Outcome)
	for _, o := range report.Judge(all) {
		m[o.Goal.Workload+" "+o.Goal.What] = o
	}
	return m
}

// A judgement is what a goal's figure was, and whether that is good enough.
type judgement struct {
	measured float64
	state    report.State
}

func wantJudged(t *testing.T, outcomes map[string]report.Outcome, goals map[string]judgement) {
	t.Helper()
	for name, want := range goals {
		got, ok := outcomes[name]
		if !ok || got.State != want.state || math.Abs(got.Measured-want.measured) > 1e-9 {
			t.Errorf("%s: %v is %q, want %v and %q", name, got.Measured, got.State, want.measured, want.state)
		}
	}
}

func figures(workload, library string, values map[string]float64) report.Figures {
	return report.Figures{Workload: workload, Library: library, Ours: strings.HasPrefix(library, "lockmw"), Values: values}
}

func TestGoalsAreComparedWithRatios(t *testing.T) {
	type values = map[string]float64
	outcomes := judged(
		figures("solo", "lockmw", values{"p50_us": 110}),
		figures("solo", "raw", values{"p50_us": 100}),
		figures("hot32", "lockmw", values{"ops_per_s": 1000, "jain": 0.9, "max_us": 50_000}),
		figures("hot32", "raw", values{"ops_per_s": 10}),
		figures("hot32", "redsync", values{"ops_per_s": 25}),
		figures("hot32", "lockmw-fair", values{"ops_per_s": 900}), // no other library
		report.Figures{Workload: "hot32", Library: "redislock", Values: values{"ops_per_s": 500}, Err: errors.New("no luck")},
		figures("handoff", "lockmw", values{"p50_us": 140}),
		figures("handoff", "pubsub", values{"p50_us": 100}),
		figures("reentry", "lockmw", values{"p50_us": 0.3, "cmds_per_op": 0}),
	)
	wantJudged(t, outcomes, map[string]judgement{
		"solo p50 / raw":               {1.1, report.Met},
		"hot32 ops/s / the best other": {40, report.Missed},
		"hot32 Jain index":             {0.9, report.Missed},
		"hot32 longest wait, ms":       {50, report.Met},
		"handoff p50 / rueidislock":    {math.NaN(), report.NotMeasured},
		"handoff p50 / bare PUBLISH":   {1.4, report.Missed},
		"reentry commands":             {0, report.Met},
		"reentry p50, ns":              {300, report.Met},
	})
	if len(outcomes) != 8 {
		t.Errorf("%d goals were judged", len(outcomes))
	}
}

func TestGoalsOfOtherKindsOfLock(t *testing.T) {
	type values = map[string]float64
	outcomes := judged(
		figures("solo", "raw", values{"ops_per_s": 100}),
		figures("queue10", "lockmw-fair", values{"ops_per_s": 1300, "cmds_per_op": 3.1}),
		figures("queue100", "lockmw-fair", values{"ops_per_s": 1040, "cmds_per_op": 3}),
		figures("queue5000", "lockmw-fair", values{"ops_per_s": 650}),
		figures("rwread32", "lockmw-rw", values{"ops_per_s": 5000}),
		figures("rw4x8", "lockmw-rw", values{"ops_per_s": 490}),
		figures("rw4x8", "lockmw", values{"ops_per_s": 100}),
	)
	wantJudged(t, outcomes, map[string]judgement{
		"queue10 commands for each lock":         {3.1, report.Missed},
		"queue100 commands for each lock":        {3, report.Met},
		"queue100 time of a hand-off / queue10":  {1.25, report.Met},
		"queue5000 time of a hand-off / queue10": {2, report.Missed},
		"queue5000 commands for each lock":       {math.NaN(), report.NotMeasured},
		"rwread32 ops/s / raw in solo":           {50, report.Met},
		"rw4x8 ops/s / the plain lock":           {4.9, report.Missed},
	})
}

func TestGoalsOfManyHoldsHaveExponents(t *testing.T) {
	type values = map[string]float64
	holds := func(size string, closing float64) report.Figures {
		return figures("held"+size, "lockmw", values{"close_ms": closing, "heap_per_hold_bytes": 1000, "ping_p99_us": 2000, "redis_per_hold_bytes": 301})
	}
	wantJudged(t, judged(holds("10k", 100), holds("50k", 2500), holds("200k", 40_000)), map[string]judgement{
		"held50k exponent of the heap":                 {1, report.Met},
		"held50k exponent of Close":                    {2, report.Missed},
		"held10k PING of another client, p99, ms":      {2, report.Met},
		"held50k memory of Redis for each hold, bytes": {301, report.Missed},
		"held200k Close, ms":                           {40_000, report.Missed},
	})
	if o := judged(holds("50k", 100))["held50k exponent of Close"]; o.State != report.NotMeasured {
		t.Errorf("with one size: %v", o)
	}
}

func TestGoalsOfACluster(t *testing.T) {
	type values = map[string]float64
	outcomes := judged(
		figures("hot32-alone", "lockmw", values{"ops_per_s": 1000}),
		figures("hot32-cluster", "lockmw", values{"ops_per_s": 690}),
		figures("spread64-alone", "lockmw", values{"ops_per_s": 1000}),
		figures("spread64-cluster", "lockmw", values{"ops_per_s": 610}),
		figures("handoff-alone", "lockmw", values{"p50_us": 100}),
		figures("handoff-cluster", "lockmw", values{"p50_us": 160, "bus_messages_per_op": 0.1}),
	)
	wantJudged(t, outcomes, map[string]judgement{
		"hot32-cluster ops/s / one server":       {0.69, report.Missed},
		"spread64-cluster ops/s / one server":    {0.61, report.Met},
		"handoff-cluster p50 / one server":       {1.6, report.Missed},
		"handoff-cluster messages between nodes": {0.1, report.Missed},
	})
}

func TestGoalsOfSeveralServers(t *testing.T) {
	type values = map[string]float64
	outcomes := judged(
		figures("solo-nodes3", "lockmw-redlock", values{"p50_us": 140}),
		figures("solo-nodes3", "lockmw-redlock-notoken", values{"p50_us": 110}),
		figures("solo-nodes3", "redsync", values{"p50_us": 100}),
		figures("solo-nodes3-dead", "lockmw-redlock", values{"p50_us": 168}),
		figures("hot32-nodes5", "lockmw-redlock", values{"ops_per_s": 990, "jain": 0.95, "max_us": 201_000}),
		figures("hot32-nodes5", "redsync", values{"ops_per_s": 100}),
		figures("spread64-nodes5", "lockmw-redlock", values{"ops_per_s": 150}),
		figures("spread64-nodes5", "redsync", values{"ops_per_s": 100}),
	)
	wantJudged(t, outcomes, map[string]judgement{
		"solo-nodes3 p50 / redsync":                {1.4, report.Missed},
		"solo-nodes3 p50 without tokens / redsync": {1.1, report.Met},
		"solo-nodes3-dead p50 / all alive":         {1.2, report.Met},
		"hot32-nodes5 ops/s / redsync":             {9.9, report.Missed},
		"hot32-nodes5 Jain index":                  {0.95, report.Met},
		"hot32-nodes5 longest wait, ms":            {201, report.Missed},
		"spread64-nodes5 ops/s / redsync":          {1.5, report.Met},
	})
}

func TestMessagesBetweenNodesAreCountedOnACluster(t *testing.T) {
	r := round(10, 10)
	r.Stats.Bus = 40
	on := *hot
	on.Cluster = workload.HasLocks
	if got, ok := report.Sum(&on, raw, []*workload.Round{r}).Values[report.BusPer]; got != 2 {
		t.Errorf("%v, %t", got, ok)
	}
	if got, ok := report.Sum(hot, raw, []*workload.Round{r}).Values[report.BusPer]; ok {
		t.Errorf("of a single server: %v", got)
	}
}

func TestGoalsAsTableAndJSON(t *testing.T) {
	outcomes := report.Judge([]report.Figures{
		figures("solo", "lockmw", map[string]float64{"p50_us": 120}),
		figures("solo", "raw", map[string]float64{"p50_us": 100}),
	})
	var b strings.Builder
	if err := report.Goals(&b, outcomes); err != nil {
		t.Fatal(err)
	}
	const table = `
workload  lockmw     goal    measured
solo      p50 / raw  ≤ 1.15  1.20      missed
`
	if got := "\n" + b.String(); got != table {
		t.Errorf("got:%swant:%s", got, table)
	}
	const line = `{"goal":"p50 / raw","goal_workload":"solo","limit":1.15,"measured":1.2,"outcome":"missed"}`
	if got, err := json.Marshal(outcomes[0]); err != nil || string(got) != line {
		t.Errorf("got %s, %v, want %s", got, err, line)
	}
}
