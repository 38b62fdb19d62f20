package failover

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/states"
)

func TestNoTwoWorkAfterAFailover(t *testing.T) {
	wantUnbroken(t, system{end: 5, faults: faults{failovers: 1, lost: 1}})
}

func TestNoTwoWorkAfterTheSlotHasMoved(t *testing.T) {
	wantUnbroken(t, system{end: 4, faults: faults{failovers: 1, moves: 1}})
}

func TestNoMarkIsLostInAFailover(t *testing.T) {
	wantUnbroken(t, system{jobs: true, end: 3, faults: faults{failovers: 1, lost: 1}})
}

func wantUnbroken(t *testing.T, y system) {
	t.Helper()
	race.FindsNothing(t)
	found := y.search()
	if found.Broken != "" {
		t.Fatalf("after %d states %s:\n%s", found.States, found.Broken, found.Path)
	}
	t.Logf("%d states", found.States)
}

// Without the rule, two work. The test finds the shortest way to that.
var needs = []struct {
	name   string
	off    rule
	faults faults
}{
	{"a grant counts only when the replica has it", grantsWait, faults{failovers: 1}},
	{"a renewal counts only when the replica has it", renewalsWait, faults{failovers: 1}},
	{"a mark counts only when the replica has it", notesWait, faults{failovers: 1}},
	{"a hold whose slot has moved is acknowledged again, or ends", movesEnd, faults{failovers: 1, moves: 1}},
	{"nobody begins on a message", pushesDoNot, faults{failovers: 1}},
	{"a run that says \"held\" has written", runsWrite, faults{failovers: 1}},
	{"WAIT is sent on the connection of the run", sameConnection, faults{failovers: 1}},
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			y := system{off: n.off, jobs: n.off == notesWait, end: 4, faults: n.faults}
			found := y.search()
			if found.Broken == "" {
				t.Fatalf("without it, nothing breaks in %d states", found.States)
			}
			t.Logf("without it, %s after %d states:\n%s", found.Broken, found.States, found.Path)
		})
	}
	if untested != 0 {
		t.Errorf("no test switches off the rules %b", untested)
	}
}

func (y *system) search() states.Found {
	return states.Search(state{faults: y.faults}, y.moves, (*state).broken)
}
