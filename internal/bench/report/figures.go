// Package report computes the figures of measurements, shows them as a table or as lines of JSON, and compares them with the
// goals.
package report

import (
	"time"

	"github.com/lockmw/go/internal/bench/library"
	"github.com/lockmw/go/internal/bench/stat"
	"github.com/lockmw/go/internal/bench/workload"
)

// Figures are the results of all rounds of one workload with one library.
type Figures struct {
	Workload, Library string
	// Ours marks the locks of this module.
	Ours bool
	// Values has the figures by their names in JSON. Figures that the workload does not have are missing.
	Values map[string]float64
	// Rounds has the figures of each round alone.
	Rounds []map[string]float64
	// Err is why there are no figures, or why they are invalid.
	Err error
}

// The names of figures that most workloads have.
const (
	OpsPerS  = "ops_per_s"
	P50      = "p50_us"
	P99      = "p99_us"
	Longest  = "max_us"
	CmdsPer  = "cmds_per_op"
	Jain     = "jain"
	CmdsPerS = "cmds_per_s"
	AllCmds  = "redis_calls_per_op" // including those within scripts
	RedisCPU = "redis_cpu_us_per_op"
	Scripts  = "script_us_per_op" // the server's time within scripts
	Allocs   = "allocs_per_op"
	Bytes    = "alloc_bytes_per_op"
	// Stranded is how many waits ended without the lock although it was free; missing if there were none.
	Stranded = "stranded_waits"
	// BusPer is how many messages of channels the nodes of a Cluster sent to each other; only on a Cluster.
	BusPer = "bus_messages_per_op"
)

// Sum computes the figures of rounds. Percentiles cover all samples of all rounds; the index of fairness is that of the least
// fair round.
func Sum(w *workload.Workload, l library.Library, rounds []*workload.Round) Figures {
	f := Figures{Workload: w.Name, Library: l.Name, Ours: l.Ours, Values: make(map[string]float64)}
	var t totals
	for _, r := range rounds {
		t.add(l, r)
		var alone totals
		alone.add(l, r)
		values := make(map[string]float64)
		alone.figures(values)
		f.Rounds = append(f.Rounds, values)
	}
	t.figures(f.Values)
	if w.Cluster == workload.HasLocks && t.pairs > 0 {
		f.Values[BusPer] = float64(t.bus) / float64(t.pairs)
	}
	return f
}

// totals are the sums over rounds.
type totals struct {
	latency       stat.Latency
	elapsed       time.Duration // of the windows in which inTime was counted
	inTime, pairs int64
	allocs, bytes int64
	stranded      int64
	jain          float64
	fairRounds    int

	sent, all   int64
	bus         int64
	cpu, window time.Duration
	scripts     time.Duration
	more        map[string][]float64
}

func (t *totals) add(l library.Library, r *workload.Round) {
	var counts []int64
	var elapsed time.Duration
	for i := range r.Reports {
		report := &r.Reports[i]
		t.latency.Merge(&report.Latency)
		elapsed = max(elapsed, report.Elapsed) // the processes run at the same time
		counts = append(counts, report.Counts...)
		t.pairs += report.Pairs
		t.allocs += report.Allocs
		t.bytes += report.Bytes
		t.stranded += report.Stranded
		for name, value := range report.More {
			if t.more == nil {
				t.more = make(map[string][]float64)
			}
			t.more[name] = append(t.more[name], value)
		}
	}
	t.elapsed += elapsed
	for _, n := range counts {
		t.inTime += n
	}
	if len(counts) > 1 {
		if j := stat.Jain(counts); t.fairRounds == 0 || j < t.jain {
			t.jain = j
		}
		t.fairRounds++
	}
	t.sent += l.Sent(r.Stats)
	t.all += r.Stats.All()
	t.cpu += r.Stats.CPU
	t.scripts += r.Stats.Scripts
	t.bus += r.Stats.Bus
	t.window += r.Window
}

func (t *totals) figures(v map[string]float64) {
	if t.elapsed > 0 {
		v[OpsPerS] = float64(t.inTime) / t.elapsed.Seconds()
	}
	if t.latency.Count() > 0 {
		v[P50] = micros(t.latency.Percentile(50))
		v[P99] = micros(t.latency.Percentile(99))
		v[Longest] = micros(t.latency.Max())
	}
	if t.stranded > 0 {
		v[Stranded] = float64(t.stranded)
	}
	if t.fairRounds > 0 {
		v[Jain] = t.jain
	}
	if t.pairs > 0 {
		per := func(n float64) float64 { return n / float64(t.pairs) }
		v[CmdsPer] = per(float64(t.sent))
		v[AllCmds] = per(float64(t.all))
		v[RedisCPU] = per(micros(t.cpu))
		if t.scripts > 0 {
			v[Scripts] = per(micros(t.scripts))
		}
		if t.allocs > 0 {
			v[Allocs] = per(float64(t.allocs))
			v[Bytes] = per(float64(t.bytes))
		}
	} else if t.window > 0 {
		v[CmdsPerS] = float64(t.sent) / t.window.Seconds()
	}
	for name, values := range t.more {
		var sum float64
		for _, x := range values {
			sum += x
		}
		v[name] = sum / float64(len(values))
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
