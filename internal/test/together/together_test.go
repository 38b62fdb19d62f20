package together

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

var (
	alone    = []want{both}
	pair     = []want{both, both}
	crossing = []want{both, both, second}
	beside   = []want{both, first, second}
)

func TestNoStateBreaksAPromise(t *testing.T) {
	states.Unbroken(t, map[string]system{
		"no faults":    {wants: []want{both, both, both}},
		"copies":       {wants: crossing, faults: faults{copies: 2}},
		"lost answers": {wants: crossing, faults: faults{silences: 2}},
		"cut off":      {wants: crossing, faults: faults{cuts: 2}},
		"single locks": {wants: beside, faults: faults{1, 1, 1}},
		"all faults":   {wants: pair, faults: faults{2, 2, 2}},
	})
}

// Without the rule, the promise is broken. The test finds the shortest way to that.
var needs = []states.Need[rule, system]{
	states.Without("a trip takes all or nothing", allOrNone, system{wants: beside}.without, noGhost),
	states.Without("a call has nothing of its trip when it begins to wait", nothingIsKept, system{wants: crossing}.without, notStuck),
	states.Without("locks are taken in the order of the keys", inKeyOrder, system{wants: crossing}.without, notStuck),
	states.Without("one id that is over refuses the whole trip", anyDoneRefuses, system{wants: alone, faults: faults{silences: 1}}.without, noGhost),
	states.Without("who holds is compared", idsAreCompared, system{wants: pair}.without, exclusion),
	states.Without("a trip that was refused is cancelled if there are copies", refusalIsUndone, system{wants: pair, faults: faults{copies: 1}}.without, noGhost),
	states.Without("a trip without an answer is cancelled", silenceIsUndone, system{wants: alone, faults: faults{silences: 1}}.without, noGhost),
	states.Without("a trip that was cut off is cancelled", cutIsUndone, system{wants: alone, faults: faults{cuts: 1}}.without, noGhost),
	states.Without("a trip takes the next token", tokenIsNew, system{wants: pair}.without, tokens),
	states.Without("a release that was cut off is repeated for each key", releaseIsRepeated, system{wants: alone, faults: faults{cuts: 1}}.without, noGhost),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }

func (y system) without(off rule) system {
	y.off = off
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	next := func(s *state) (all []states.Move[state]) {
		for _, m := range y.moves(s) {
			all = append(all, m.Move)
		}
		return all
	}
	return states.Search(state{faults: y.faults}, next, func(s *state) string { return string(y.check(s)) })
}
