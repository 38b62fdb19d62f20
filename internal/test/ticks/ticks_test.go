package ticks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/go/internal/test/race"
)

// The calls of replicas whose clocks differ.
var (
	oneTick  = []start{{0, 0}, {0, -2}, {0, 2}}
	skewed   = []start{{0, -2}, {0, within + 3}, {0, 1}}
	pair     = []start{{0, -2}, {0, 2}}
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
		"all faults":            {calls: pair, faults: faults{1, 1, 1, 1, 1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, path, broken := y.search()
			if broken != "" {
				t.Fatalf("after %d states, %q breaks:\n%s", states, broken, path)
			}
			t.Logf("%d states", states)
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
	{"without a mark the lock stays taken", unmarkedKeeps, system{calls: pair, faults: faults{refusals: 1}}, once},
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			n.in.off = n.off
			states, path, broken := n.in.search()
			if broken != n.promise {
				t.Fatalf("without it, %q breaks after %d states, want %q:\n%s", broken, states, n.promise, path)
			}
			t.Logf("without it, %q breaks after %d states:\n%s", broken, states, path)
		})
	}
	if untested != 0 {
		t.Errorf("no test switches off the rules %b", untested)
	}
}

// search visits all states, breadth first, until one breaks a promise. It returns how many it visited, and the
// moves that lead to that one.
func (y *system) search() (states int, path string, broken promise) {
	type visited struct {
		state  state
		parent int
		by     string
	}
	list := []visited{{state: state{faults: y.faults}}}
	index := map[state]bool{list[0].state: true}
	for i := 0; i < len(list); i++ {
		if broken = list[i].state.check(); broken != "" {
			var moves []string
			for j := i; j > 0; j = list[j].parent {
				moves = append(moves, list[j].by)
			}
			slices.Reverse(moves)
			return len(list), strings.Join(moves, "\n"), broken
		}
		s := list[i].state
		for _, m := range y.moves(&s) {
			if !index[m.to] {
				index[m.to] = true
				list = append(list, visited{m.to, i, fmt.Sprintf("%2d  call %d  %s", s.now, m.call, m.name)})
			}
		}
	}
	return len(list), "", ""
}
