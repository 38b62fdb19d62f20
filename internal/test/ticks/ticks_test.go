package ticks

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/states"
)

// The calls of replicas whose clocks differ.
var (
	oneTick  = []start{{0, 0}, {0, -2}, {0, 2}}
	skewed   = []start{{0, -2}, {0, within + 3}, {0, 1}}
	pair     = []start{{0, -2}, {0, 2}}
	spread   = []start{{0, -within}, {0, within}, {0, 0}}
	twoTicks = []start{{0, 1}, {1, -2}, {0, 0}}
)

func TestNoStateBreaksAPromise(t *testing.T) {
	race.FindsNothing(t)
	for name, y := range map[string]system{
		"crashes":               {calls: oneTick, faults: faults{deaths: 3}},
		"lost answers":          {calls: oneTick, faults: faults{losses: 2, deaths: 1}},
		"pauses":                {calls: oneTick, faults: faults{pauses: 2, deaths: 1}},
		"late copies":           {calls: oneTick, faults: faults{copies: 2, losses: 1, pauses: 1, quits: 1}},
		"early steps":           {calls: oneTick, faults: faults{early: 2, pauses: 1}},
		"refusals and failures": {calls: oneTick, faults: faults{refusals: 1, failures: 1, deaths: 1}},
		"a clock that is off":   {calls: skewed, faults: faults{deaths: 1, losses: 1}},
		"two ticks":             {calls: twoTicks, faults: faults{deaths: 1, pauses: 1, losses: 1}},
		"a server without data": {calls: spread, faults: faults{restarts: 1, deaths: 1, losses: 1}},
		"all faults":            {calls: pair, faults: faults{1, 1, 1, 1, 1, 1, 1, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := y.search()
			if found.Broken != "" {
				t.Fatalf("after %d states, %q breaks:\n%s", found.States, found.Broken, found.Path)
			}
			t.Logf("%d states", found.States)
		})
	}
}

// Without the rule, the promise is broken. The test finds the shortest way to that.
var needs = []struct {
	name    string
	off     rule
	in      system
	promise promise
}{
	{"there is one lock for all ticks of a job", oneLock, system{calls: twoTicks}, alone},
	{"a replica waits for a busy lock", busyIsWaitedFor, system{calls: pair}, elsewhere},
	{"begin looks for the mark", marksAreRead, system{calls: pair}, once},
	{"the server's clock decides whether it is time", clockIsChecked, system{calls: skewed}, inTime},
	{"only the holder of the lock begins a tick", holdIsCompared, system{calls: oneTick, faults: faults{copies: 1, pauses: 1, deaths: 1}}, begunTwo},
	{"a repeated begin counts once", copiesAreKnown, system{calls: pair, faults: faults{losses: 2}}, begunTwo},
	{"a tick that was begun twice is not begun again", begunIsCounted, system{calls: oneTick, faults: faults{deaths: 2}}, once},
	{"an answer that comes after the loss of the lock starts no run", lateIsUnused, system{calls: pair, faults: faults{early: 1, pauses: 1}}, once},
	{"marks last for as long as a clock may be off", notesLast, system{calls: pair}, once},
	{"the mark is written before the release", markIsFirst, system{calls: pair}, once},
	{"a mark without an answer is written again", markIsRepeated, system{calls: pair, faults: faults{losses: 1}}, once},
	{"a run that failed is marked", failureIsMarked, system{calls: pair, faults: faults{failures: 1}}, once},
	{"a run that lost its lock is not marked", lossIsNotMarked, system{calls: oneTick, faults: faults{pauses: 1, deaths: 1}}, elsewhere},
	{"a quarantine is longer than a tick", quarantineLasts, system{calls: spread, faults: faults{restarts: 1}}, once},
	{"without a mark the lock stays taken", unmarkedKeeps, system{calls: pair, faults: faults{refusals: 1}}, once},
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			n.in.off = n.off
			found := n.in.search()
			if found.Broken != string(n.promise) {
				t.Fatalf("without it, %q breaks after %d states, want %q:\n%s", found.Broken, found.States, n.promise, found.Path)
			}
			t.Logf("without it, %q breaks after %d states:\n%s", found.Broken, found.States, found.Path)
		})
	}
	if untested != 0 {
		t.Errorf("no test switches off the rules %b", untested)
	}
}

func (y *system) search() states.Found {
	return states.Search(state{faults: y.faults}, y.moves, func(s *state) string { return string(s.check()) })
}
