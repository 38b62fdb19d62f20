package report

import "github.com/lockmw/go/internal/bench/workload"

// The adapters of idempotent calls that have goals.
const (
	once     = ours + "-once"
	onceHTTP = ours + "-http"
)

// onceGoals are the goals of idempotent calls. An exponent describes how a value grows with the number of callers.
func onceGoals() (list []Goal) {
	for _, w := range []struct {
		name, floor, what string
		commands, time    float64 // time, to the floor: see docs/performance-ledger.md
	}{{"once", "setnx", "SET NX + SET", 2, 1.5}, {"replay", "get", "GET", 1, 1.3}} {
		first, last := w.name+"1", w.name+"64"
		sizes := []sized{{first, 1}, {w.name + "16", 16}, {last, 64}}
		value := func(name string) func(t table, w sized) float64 {
			return func(t table, w sized) float64 { return t.value(w.name, once, name) }
		}
		list = append(list,
			Goal{first, "p50 / " + w.what, w.time, false, quotient(first, once, first, w.floor, P50)},
			Goal{first, "commands for each call", w.commands + 0.1, false, func(t table) float64 { return t.value(first, once, CmdsPer) }},
			Goal{last, "ops/s / " + w.what, 0.35, true, quotient(last, once, last, w.floor, OpsPerS)},
			Goal{last, "exponent of commands for each call", 0.1, false, growth(sizes, value(CmdsPer))},
			Goal{last, "exponent of the server's time for each call", 0.1, false, growth(sizes, value(RedisCPU))},
		)
	}
	return append(list,
		Goal{"once64", "ops/s over HTTP / fiber-redsync", 1, true, quotient("once64", onceHTTP, "once64", "fiber-redsync", OpsPerS)},
		Goal{"oncefaults", "share of simultaneous calls with an answer", 1, true,
			func(t table) float64 { return t.value("oncefaults", once, workload.Answered) }},
	)
}
