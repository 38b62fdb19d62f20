package quarantine

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/states"
)

func TestNoTwoWorkAfterALoss(t *testing.T) {
	race.FindsNothing(t)
	y := system{processes: 2, end: 6, losses: 2}
	found := y.search()
	if found.Broken != "" {
		t.Fatalf("after %d states %s:\n%s", found.States, found.Broken, found.Path)
	}
	t.Logf("%d states", found.States)
}

// Without the rule, two work. The test finds the shortest way to that.
var needs = []struct {
	name      string
	off       rule
	processes int
	end       int8
}{
	{"the run that grants compares the id", runsCompare, 2, 4},
	{"a release hands over only at a trusted server", releasesAreGated, 3, 2},
	{"a poll grants only at a trusted server", pollsAreGated, 2, 4},
	{"a server is trusted when it was known for a quarantine", lossesAreWaited, 2, 4},
	{"a quarantine is longer than a lease", quarantineIsLong, 2, 4},
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			y := system{off: n.off, processes: n.processes, end: n.end, losses: 1}
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
	return states.Search(state{losses: y.losses, id: 1, since: -1}, y.moves, (*state).broken)
}
