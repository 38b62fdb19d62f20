package together

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/states"
)

var (
	alone    = []want{both}
	pair     = []want{both, both}
	crossing = []want{both, both, second}
	beside   = []want{both, first, second}
)

func TestNoStateBreaksAPromise(t *testing.T) {
	race.FindsNothing(t)
	for name, y := range map[string]system{
		"no faults":    {wants: []want{both, both, both}},
		"copies":       {wants: crossing, faults: faults{copies: 2}},
		"lost answers": {wants: crossing, faults: faults{silences: 2}},
		"cut off":      {wants: crossing, faults: faults{cuts: 2}},
		"single locks": {wants: beside, faults: faults{1, 1, 1}},
		"all faults":   {wants: pair, faults: faults{2, 2, 2}},
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
	{"a trip takes all or nothing", allOrNone, system{wants: beside}, noGhost},
	{"a call has nothing of its trip when it begins to wait", nothingIsKept, system{wants: crossing}, notStuck},
	{"locks are taken in the order of the keys", inKeyOrder, system{wants: crossing}, notStuck},
	{"one id that is over refuses the whole trip", anyDoneRefuses, system{wants: alone, faults: faults{silences: 1}}, noGhost},
	{"who holds is compared", idsAreCompared, system{wants: pair}, exclusion},
	{"a trip that was refused is cancelled if there are copies", refusalIsUndone, system{wants: pair, faults: faults{copies: 1}}, noGhost},
	{"a trip without an answer is cancelled", silenceIsUndone, system{wants: alone, faults: faults{silences: 1}}, noGhost},
	{"a trip that was cut off is cancelled", cutIsUndone, system{wants: alone, faults: faults{cuts: 1}}, noGhost},
	{"a trip takes the next token", tokenIsNew, system{wants: pair}, tokens},
	{"a release that was cut off is repeated for each key", releaseIsRepeated, system{wants: alone, faults: faults{cuts: 1}}, noGhost},
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
	next := func(s *state) (all []states.Move[state]) {
		for _, m := range y.moves(s) {
			all = append(all, m.Move)
		}
		return all
	}
	return states.Search(state{faults: y.faults}, next, func(s *state) string { return string(y.check(s)) })
}
