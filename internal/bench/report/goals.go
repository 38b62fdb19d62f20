package report

import (
	"math"
	"slices"

	"github.com/lockmw/go/internal/bench/workload"
)

// A Goal is a bound for a figure or for the ratio of two.
type Goal struct {
	Workload string
	What     string
	Limit    float64
	AtLeast  bool // otherwise at most

	measure func(table) float64 // NaN if it was not measured
}

// State says whether a goal was met.
type State string

// The states of goals.
const (
	Met         State = "met"
	Missed      State = "missed"
	NotMeasured State = "not measured"
)

// An Outcome is a goal compared with the measurement.
type Outcome struct {
	Goal     Goal
	Measured float64
	State    State
}

// A table finds figures by workload and library.
type table map[[2]string]Figures

// value returns a figure, NaN if there is none.
func (t table) value(workload, library, name string) float64 {
	f, ok := t[[2]string{workload, library}]
	if !ok || f.Err != nil {
		return math.NaN()
	}
	v, ok := f.Values[name]
	if !ok {
		return math.NaN()
	}
	return v
}

const ours = "lockmw"

// The other kinds of lockmw's lock that have goals.
const (
	fair    = ours + "-fair"
	rw      = ours + "-rw"
	over    = ours + "-redlock"
	noToken = over + "-notoken"
	permits = ours + "-semaphore"
)

// figure measures a figure of lockmw itself.
func figure(workload, name string) func(table) float64 {
	return func(t table) float64 { return t.value(workload, ours, name) }
}

// ratio measures lockmw's figure relative to another one.
func ratio(workload, other, name string) func(table) float64 {
	return quotient(workload, ours, workload, other, name)
}

// best measures the plain lock's figure relative to the highest of all other libraries.
func best(workload, name string) func(table) float64 {
	return func(t table) float64 {
		highest := math.NaN()
		for place, f := range t {
			if place[0] != workload || f.Ours {
				continue
			}
			if v := t.value(place[0], place[1], name); math.IsNaN(highest) || v > highest {
				highest = v
			}
		}
		return t.value(workload, ours, name) / highest
	}
}

// quotient measures the figure of one library relative to another's, each in its workload.
func quotient(workload, library, other, otherLibrary, name string) func(table) float64 {
	return func(t table) float64 { return t.value(workload, library, name) / t.value(other, otherLibrary, name) }
}

// goals are the goals for speed.
func goals() []Goal {
	list := []Goal{
		{Workload: "solo", What: "p50 / raw", Limit: 1.15, measure: ratio("solo", "raw", P50)},
	}
	for _, w := range []string{"spread64", "spread512"} {
		list = append(list,
			Goal{w, "ops/s / rueidislock", 1.5, true, ratio(w, "rueidislock", OpsPerS)},
			Goal{w, "ops/s / redsync", 3, true, ratio(w, "redsync", OpsPerS)},
			Goal{w, "ops/s / redislock", 3, true, ratio(w, "redislock", OpsPerS)},
			Goal{w, "ops/s / rawAP", 0.6, true, ratio(w, "rawAP", OpsPerS)},
		)
	}
	list = append(list,
		Goal{"hot32", "ops/s / the best other", 50, true, best("hot32", OpsPerS)},
		Goal{"hot32", "Jain index", 0.95, true, figure("hot32", Jain)},
		Goal{"hot32", "longest wait, ms", 50, false, millis("hot32", Longest)},
		Goal{"hot4x8", "ops/s / rueidislock", 10, true, ratio("hot4x8", "rueidislock", OpsPerS)},
		Goal{"hot4x8", "Jain index", 0.95, true, figure("hot4x8", Jain)},
		Goal{"hot4x8", "longest wait, ms", 100, false, millis("hot4x8", Longest)},
	)
	list = append(append(list, kindGoals()...), clusterGoals()...)
	list = append(append(list, nodesGoals("3")...), nodesGoals("5")...)
	list = append(append(list, heldGoals()...), waitedGoals()...)
	list = append(append(list, onceGoals()...), scaleGoals()...)
	return append(list,
		Goal{"handoff", "p50 / rueidislock", 0.55, false, ratio("handoff", "rueidislock", P50)},
		Goal{"handoff", "p50 / bare PUBLISH", 1.3, false, ratio("handoff", "pubsub", P50)},
		Goal{"idle1000", "commands/s", 2, false, figure("idle1000", CmdsPerS)},
		Goal{"held10k", "goroutines for each hold", 0.001, false, figure("held10k", "goroutines_per_hold")},
		Goal{"spread64-page", "ops/s / without the page", 0.9, true, quotient("spread64-page", ours, "spread64-nopage", ours, OpsPerS)},
		Goal{"spread64-page", "SCANs a second of the page", 350, false, figure("spread64-page", "scans_per_s")},
		Goal{"reentry", "commands", 0, false, figure("reentry", CmdsPer)},
		Goal{"reentry", "p50, ns", 300, false, func(t table) float64 { return 1000 * t.value("reentry", ours, P50) }},
		Goal{"all8", "p50 of Lock / one", 1.5, false, figure("all8", "lock_vs_one")},
		Goal{"all8", "p50 of Unlock / one", 1.5, false, figure("all8", "unlock_vs_one")},
	)
}

// kindGoals are the goals of the fair and of the read-write lock.
func kindGoals() []Goal {
	commands := func(w string) Goal {
		return Goal{w, "commands for each lock", 3, false, func(t table) float64 { return t.value(w, fair, CmdsPer) }}
	}
	list := []Goal{commands("queue10")}
	list = append(list,
		Goal{"fair32", "ops/s / rueidislock", 1.8, true, quotient("fair32", fair, "fair32", "rueidislock", OpsPerS)},
		Goal{"fair32", "Jain index", 0.99, true, func(t table) float64 { return t.value("fair32", fair, Jain) }},
		Goal{"fair4x8", "Jain index", 0.99, true, func(t table) float64 { return t.value("fair4x8", fair, Jain) }},
	)
	for _, w := range []string{"queue100", "queue1000", "queue5000"} {
		list = append(list,
			Goal{w, "time of a hand-off / queue10", 1.3, false, quotient("queue10", fair, w, fair, OpsPerS)},
			commands(w),
		)
	}
	list = append(list, permitGoals()...)
	return append(list,
		Goal{"rwread32", "ops/s / raw in solo", 50, true, quotient("rwread32", rw, "solo", "raw", OpsPerS)},
		Goal{"rw4x8", "ops/s / the plain lock", 5, true, quotient("rw4x8", rw, "rw4x8", ours, OpsPerS)},
	)
}

// permitGoals are the goals of semaphores.
func permitGoals() (list []Goal) {
	for _, w := range []string{"sem32x8", "sem32x8-20ms"} {
		value := func(name string) func(table) float64 {
			return func(t table) float64 { return t.value(w, permits, name) }
		}
		list = append(list,
			Goal{w, "permits held while somebody waits", 0.9, true, value(workload.Held)},
			Goal{w, "Jain index", 0.95, true, value(Jain)},
		)
	}
	inUse := func(other string) func(table) float64 {
		return quotient("sem32x8", permits, "sem32x8", other, workload.InUse)
	}
	return append(list,
		Goal{"sem32x8", "permits in use / redislock-slots", 1.5, true, inUse("redislock-slots")},
		Goal{"sem32x8", "permits in use / zset-semaphore", 1, true, inUse("zset-semaphore")},
		Goal{"sem32x8-20ms", "permits in use", 0.9, true, func(t table) float64 { return t.value("sem32x8-20ms", permits, workload.InUse) }},
	)
}

// heldGoals are the goals of many holds, by their number. An exponent describes how a value grows with it.
func heldGoals() (list []Goal) {
	sizes := []sized{{"held10k", 10_000}, {"held50k", 50_000}, {"held200k", 200_000}}
	for _, w := range sizes {
		list = append(list,
			Goal{w.name, "PING of another client, p99, ms", 5, false, millis(w.name, workload.PingP99)},
			Goal{w.name, "heap for each hold, bytes", 1024, false, figure(w.name, workload.HeapPerHold)},
			Goal{w.name, "memory of Redis for each hold, bytes", 300, false, figure(w.name, workload.RedisMemory)},
			Goal{w.name, "Close, ms", w.n / 40, false, figure(w.name, workload.CloseMillis)},
		)
	}
	heap := func(t table, w sized) float64 { return w.n * t.value(w.name, ours, workload.HeapPerHold) }
	closing := func(t table, w sized) float64 { return t.value(w.name, ours, workload.CloseMillis) }
	return append(list,
		Goal{"held50k", "exponent of the heap", 1.1, false, growth(sizes, heap)},
		Goal{"held50k", "exponent of Close", 1.1, false, growth(sizes, closing)},
	)
}

// clusterGoals are the goals of a Cluster, compared with one server on the same machine.
func clusterGoals() []Goal {
	alone := func(w, name string) func(table) float64 { return quotient(w+"-cluster", ours, w+"-alone", ours, name) }
	return []Goal{
		{"hot32-cluster", "ops/s / one server", 0.7, true, alone("hot32", OpsPerS)},
		{"spread64-cluster", "ops/s / one server", 0.6, true, alone("spread64", OpsPerS)},
		{"handoff-cluster", "p50 / one server", 1.5, false, alone("handoff", P50)},
		{"handoff-cluster", "messages between nodes", 0, false, figure("handoff-cluster", BusPer)},
	}
}

// nodesGoals are the goals of locks over n independent servers.
func nodesGoals(n string) []Goal {
	solo, hot, spread := "solo-nodes"+n, "hot32-nodes"+n, "spread64-nodes"+n
	dead := solo + "-dead"
	redsync := func(w, library, name string) func(table) float64 { return quotient(w, library, w, "redsync", name) }
	return []Goal{
		{solo, "p50 / redsync", 1.3, false, redsync(solo, over, P50)},
		{solo, "p50 without tokens / redsync", 1.1, false, redsync(solo, noToken, P50)},
		{dead, "p50 / all alive", 1.2, false, quotient(dead, over, solo, over, P50)},
		{hot, "ops/s / redsync", 10, true, redsync(hot, over, OpsPerS)},
		{hot, "Jain index", 0.95, true, func(t table) float64 { return t.value(hot, over, Jain) }},
		{hot, "longest wait, ms", 200, false, func(t table) float64 { return t.value(hot, over, Longest) / 1000 }},
		{spread, "ops/s / redsync", 1.5, true, redsync(spread, over, OpsPerS)},
	}
}

func millis(workload, name string) func(table) float64 {
	return func(t table) float64 { return t.value(workload, ours, name) / 1000 }
}

// Judge compares figures with all goals of their workloads.
func Judge(all []Figures) []Outcome {
	t := make(table)
	for _, f := range all {
		t[[2]string{f.Workload, f.Library}] = f
	}
	var outcomes []Outcome
	for _, g := range goals() {
		if !slices.ContainsFunc(all, func(f Figures) bool { return f.Workload == g.Workload }) {
			continue
		}
		o := Outcome{Goal: g, Measured: round(g.measure(t)), State: Missed}
		switch {
		case math.IsNaN(o.Measured):
			o.State = NotMeasured
		case g.AtLeast && o.Measured >= g.Limit, !g.AtLeast && o.Measured <= g.Limit:
			o.State = Met
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}
