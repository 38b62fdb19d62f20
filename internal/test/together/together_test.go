package together

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

var (
	alone    = []want{both}
	pair     = []want{both, both}
	crossing = []want{both, both, second}
	singles  = []want{both, first, second}
)

func TestNoStateBreaksAPromise(t *testing.T) {
	states.Unbroken(t, map[string]system{
		"no faults":    {wants: []want{both, both, both}},
		"copies":       {wants: crossing, faults: faults{copies: 2}},
		"lost answers": {wants: crossing, faults: faults{silences: 2}},
		"cut off":      {wants: crossing, faults: faults{cuts: 2}},
		"single locks": {wants: singles, faults: faults{1, 1, 1}},
		"all faults":   {wants: pair, faults: faults{2, 2, 2}},
	})
}

// Each switched-off rule breaks a promise. The test finds the shortest path to that.
var needs = []states.Need[rule, system]{
	states.Without("a multi-acquire takes all locks or none", allOrNone, system{wants: singles}.without, noGhost),
	states.Without("a refused multi-acquire leaves nothing held", nothingIsKept, system{wants: crossing}.without, notStuck),
	states.Without("locks are taken in the order of the keys", inKeyOrder, system{wants: crossing}.without, notStuck),
	states.Without("one ended id refuses the whole multi-acquire", anyDoneRefuses, system{wants: alone, faults: faults{silences: 1}}.without, noGhost),
	states.Without("the ids of the holders are compared", idsAreCompared, system{wants: pair}.without, exclusion),
	states.Without("a refused multi-acquire is cancelled if there are copies", refusalIsUndone, system{wants: pair, faults: faults{copies: 1}}.without, noGhost),
	states.Without("an unanswered multi-acquire is cancelled", silenceIsUndone, system{wants: alone, faults: faults{silences: 1}}.without, noGhost),
	states.Without("a multi-acquire that was cut off is cancelled", cutIsUndone, system{wants: alone, faults: faults{cuts: 1}}.without, noGhost),
	states.Without("a multi-acquire takes the next token", tokenIsNew, system{wants: pair}.without, tokens),
	states.Without("each key of a release that was cut off is released again", releaseIsRepeated, system{wants: alone, faults: faults{cuts: 1}}.without, noGhost),
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
