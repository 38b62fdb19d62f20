package quarantine

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

func TestNoTwoWorkAfterALoss(t *testing.T) {
	states.Unbroken(t, map[string]system{"two losses": {processes: 2, end: 6, losses: 2}})
}

// Without the rule, two work. The test finds the shortest way to that.
var needs = []states.Need[rule, system]{
	states.Without("the run that grants compares the id", runsCompare, system{processes: 2, end: 4, losses: 1}.without, "two work"),
	states.Without("a release hands over only at a trusted server", releasesAreGated, system{processes: 3, end: 2, losses: 1}.without, "two work"),
	states.Without("a poll grants only at a trusted server", pollsAreGated, system{processes: 2, end: 4, losses: 1}.without, "two work"),
	states.Without("a server is trusted when it was known for a quarantine", lossesAreWaited, system{processes: 2, end: 4, losses: 1}.without, "two work"),
	states.Without("a quarantine is longer than a lease", quarantineIsLong, system{processes: 2, end: 4, losses: 1}.without, "two work"),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }

func (y system) without(off rule) system {
	y.off = off
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	return states.Search(state{losses: y.losses, id: 1, since: -1}, y.moves, (*state).broken)
}
