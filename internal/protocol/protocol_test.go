package protocol

import (
	"flag"
	"testing"
	"time"
)

var (
	contenders   = flag.Int("contenders", 0, "visit all states of so many processes, at most 3")
	acquisitions = flag.Int("acquisitions", 2, "by each of them")
	replays      = flag.Uint("replays", 1, "commands that are written again")
	delays       = flag.Uint("delays", 1, "times that a process is too slow")
	cancels      = flag.Uint("cancels", 1, "calls that end early")
	deaths       = flag.Uint("deaths", 0, "processes that die")
	pollsAtOnce  = flag.Int("polls", 1, "of one process, at most 2")
	tries        = flag.Bool("tries", true, "some do not wait")
)

var underRace bool

// The systems that are visited by default: each finishes in some seconds and has what the others lack.
var systems = map[string]system{
	"replays, tries":  {processes: 2, acquires: 2, polls: 1, tries: true, faults: faults{1, 1, 1, 0}},
	"deaths":          {processes: 2, acquires: 2, polls: 1, tries: true, faults: faults{0, 1, 1, 1}},
	"many faults":     {processes: 2, acquires: 1, polls: 2, tries: true, faults: faults{2, 2, 1, 1}},
	"polls overtaken": {processes: 2, acquires: 2, polls: 2, faults: faults{1, 1, 0, 0}},
	"three processes": {processes: 3, acquires: 1, polls: 1, faults: faults{1, 1, 1, 0}},
	"three, one dies": {processes: 3, acquires: 1, polls: 1, faults: faults{1, 1, 0, 1}},
}

// stuck is a property of all states together; the others are checked in each.
const stuck = "nobody is stuck"

var properties = map[string]func(*state) string{"ME": twoHolders, "F": oldToken, "no ghost": ghost}

func allWell(s *state) string { return twoHolders(s) + oldToken(s) + ghost(s) }

func TestNoStateBreaksAPromise(t *testing.T) {
	if *contenders > 0 {
		clean(t, system{
			processes: min(*contenders, maxProcesses), acquires: *acquisitions, polls: min(*pollsAtOnce, 2), tries: *tries,
			faults: faults{uint8(*replays), uint8(*delays), uint8(*cancels), uint8(*deaths)},
		})
		return
	}
	for name, y := range systems {
		if underRace && y.processes > 2 {
			continue
		}
		if underRace {
			y.acquires, y.faults.replays, y.faults.delays = 1, min(y.faults.replays, 1), 1
		}
		t.Run(name, func(t *testing.T) { clean(t, y) })
	}
}

func clean(t *testing.T, y system) {
	start := time.Now()
	h := y.newSearch()
	if i, what := h.run(allWell); i >= 0 {
		t.Fatalf("after %d states: %s:\n%s", len(h.hashes), what, h.trace(i))
	}
	if i := h.stuck(); i >= 0 {
		t.Fatalf("nothing leads on from here:\n%s", h.trace(i))
	}
	t.Logf("%d states, %.1f s", len(h.hashes), time.Since(start).Seconds())
}
