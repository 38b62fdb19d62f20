package failover

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

func TestNoTwoWorkAndNoMarkIsLost(t *testing.T) {
	states.Unbroken(t, map[string]system{
		"a fail-over":             {end: 5, faults: faults{failovers: 1, lost: 1}},
		"the slot moves":          {end: 4, faults: faults{failovers: 1, moves: 1}},
		"a fail-over, with marks": {jobs: true, end: 3, faults: faults{failovers: 1, lost: 1}},
	})
}

// Without the rule, two work. The test finds the shortest way to that.
var needs = []states.Need[rule, system]{
	states.Without("a grant counts only when the replica has it", grantsWait, system{end: 4, faults: faults{failovers: 1}}.without, "two work"),
	states.Without("a renewal counts only when the replica has it", renewalsWait, system{end: 4, faults: faults{failovers: 1}}.without, "two work"),
	states.Without("a mark counts only when the replica has it", notesWait, system{jobs: true, end: 4, faults: faults{failovers: 1}}.without, "a mark is lost"),
	states.Without("a hold whose slot has moved is acknowledged again, or ends", movesEnd, system{end: 4, faults: faults{failovers: 1, moves: 1}}.without, "two work"),
	states.Without("nobody begins on a message", pushesDoNot, system{end: 4, faults: faults{failovers: 1}}.without, "two work"),
	states.Without("a run that says \"held\" has written", runsWrite, system{end: 4, faults: faults{failovers: 1}}.without, "two work"),
	states.Without("WAIT is sent on the connection of the run", sameConnection, system{end: 4, faults: faults{failovers: 1}}.without, "two work"),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }

func (y system) without(off rule) system {
	y.off = off
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	return states.Search(state{faults: y.faults}, y.moves, (*state).broken)
}
