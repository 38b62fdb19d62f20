package report

import (
	"math"

	"github.com/lockmw/go/internal/bench/workload"
)

// waitedGoals are the goals of many keys with waiters. They grow with the number of keys, except for the effect on other
// clients.
func waitedGoals() (list []Goal) {
	whole := []sized{{"waited2k", 2000}, {"waited10k", 10_000}, {"waited40k", 40_000}, {"waited80k", 80_000}, {"waited200k", 200_000}}
	half := []sized{{"waited10k-half", 10_000}, {"waited200k-half", 200_000}}
	for _, w := range whole {
		cores := 0.02
		if w.n > 10_000 {
			cores = 0.03
		}
		list = append(list,
			Goal{w.name, "commands/s at rest", 7 * w.n / 100, false, atRest(w, workload.RestCommands)},
			Goal{w.name, "cores of the server at rest", cores, false, atRest(w, workload.RestCores)},
			Goal{w.name, "PING of another client at rest, p99, ms", 2, false, func(t table) float64 { return atRest(w, workload.PingP99)(t) / 1000 }},
		)
		list = append(list, servedGoals(w, w.n/10)...)
	}
	for _, w := range half {
		list = append(list, servedGoals(w, w.n/5)...)
	}
	rest := func(t table, w sized) float64 { return atRest(w, workload.RestCommands)(t) }
	restGrowth := func(t table) float64 {
		if math.IsNaN(rest(t, sized{name: "waited80k"})) {
			return math.NaN() // the small sizes alone show no cliff
		}
		return growth(whole, rest)(t)
	}
	return append(list,
		Goal{"waited80k", "exponent of commands at rest", 1.1, false, restGrowth},
		Goal{"waited80k", "exponent of the time to serve all", 1.1, false, growth(whole, timeToServe)},
		Goal{"waited200k-half", "exponent of the time to serve all", 1.1, false, growth(half, timeToServe)},
	)
}

// atRest measures a figure of keys with waiters. There is none while some waiters have not reached the queue yet.
func atRest(w sized, name string) func(table) float64 {
	return func(t table) float64 {
		if t.value(w.name, ours, workload.QueuedShare) < 1 {
			return math.NaN()
		}
		return t.value(w.name, ours, name)
	}
}

// servedGoals are the goals from the release on. Most is in milliseconds.
func servedGoals(w sized, most float64) []Goal {
	return []Goal{
		{w.name, "share that waits after 60 s", 1, true, figure(w.name, workload.QueuedShare)},
		{w.name, "share that is served after 60 s", 1, true, figure(w.name, workload.ServedShare)},
		{w.name, "all are served after, ms", most, false, figure(w.name, workload.ServedMillis)},
		{w.name, "longest time without a grant, ms", 1000, false, figure(w.name, workload.LongestGap)},
		{w.name, "calls that fail", 0, false, figure(w.name, workload.FailedCalls)},
		{w.name, "scripts for each lock", 1.5, false, figure(w.name, workload.ScriptsPer)},
	}
}

// timeToServe returns how long it takes to serve all, extrapolated if the limit came first.
func timeToServe(t table, w sized) float64 {
	share := max(t.value(w.name, ours, workload.ServedShare), 1/w.n) // NaN stays NaN
	return t.value(w.name, ours, workload.ServedMillis) / share
}
