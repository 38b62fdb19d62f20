package failover

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

func TestNoTwoProcessesWorkAndNoMarkIsLost(t *testing.T) {
	states.Unbroken(t, map[string]system{
		"a fail-over":             {replica: true, processes: 2, end: 5, faults: faults{failovers: 1, lost: 1}},
		"the slot moves":          {replica: true, processes: 2, end: 4, faults: faults{failovers: 1, moves: 1}},
		"a fail-over, with marks": {replica: true, processes: 2, jobs: true, end: 3, faults: faults{failovers: 1, lost: 1}},
		"two losses":              {processes: 2, end: 6, faults: faults{losses: 2}},
	})
}

var (
	failsOver = system{replica: true, processes: 2, end: 4, faults: faults{failovers: 1}}
	moves     = system{replica: true, processes: 2, end: 4, faults: faults{failovers: 1, moves: 1}}
	marking   = system{replica: true, processes: 2, jobs: true, end: 4, faults: faults{failovers: 1}}
	loses     = system{processes: 2, end: 4, faults: faults{losses: 1}}
	handsOver = system{processes: 3, end: 2, faults: faults{losses: 1}}
)

// Each switched-off rule breaks a promise. The test finds the shortest path to that.
var needs = []states.Need[rule, system]{
	states.Without("a grant counts only when the replica has it", grantsWait, failsOver.without, "two processes work"),
	states.Without("a renewal counts only when the replica has it", renewalsWait, failsOver.without, "two processes work"),
	states.Without("a mark counts only when the replica has it", notesWait, marking.without, "a mark is lost"),
	states.Without("a hold whose slot has moved ends unless it is acknowledged again", movesEnd, moves.without, "two processes work"),
	states.Without("no process begins on a message alone", pushesDoNot, failsOver.without, "two processes work"),
	states.Without("an execution that answers \"held\" has written", runsWrite, failsOver.without, "two processes work"),
	states.Without("WAIT uses the connection of the script", sameConnection, failsOver.without, "two processes work"),

	states.Without("the granting execution compares the id", runsCompare, loses.without, "two processes work"),
	states.Without("a release hands over only at a trusted server", releasesAreGated, handsOver.without, "two processes work"),
	states.Without("a poll grants only at a trusted server", pollsAreGated, loses.without, "two processes work"),
	states.Without("a server is trusted once it has been known for a quarantine", lossesAreWaited, loses.without, "two processes work"),
	states.Without("a quarantine is longer than a lease", quarantineIsLong, loses.without, "two processes work"),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }

func (y system) without(off rule) system {
	y.off = off
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	return states.Search(state{faults: y.faults, id: 1, since: -1}, y.moves, (*state).broken)
}
