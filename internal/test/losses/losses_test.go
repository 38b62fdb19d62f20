package losses

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/states"
)

var (
	once    = faults{saves: 1, losses: 1}
	twice   = faults{saves: 1, losses: 2}
	givesUp = faults{saves: 1, losses: 1, gives: 1}
)

func TestWhatHasEndedDoesNotComeBack(t *testing.T) {
	race.FindsNothing(t)
	for name, y := range map[string]system{
		"one holds":              {capacity: 1, ids: 3, faults: givesUp},
		"several hold":           {capacity: 2, ids: 3, faults: once},
		"the server loses twice": {capacity: 2, ids: 2, faults: faults{saves: 2, losses: 2, gives: 1}},
		"nobody notices":         {capacity: 1, ids: 3, blind: true, faults: once},
	} {
		t.Run(name, func(t *testing.T) {
			found := y.search()
			if found.Broken != "" {
				t.Fatalf("after %d states %s:\n%s", found.States, found.Broken, found.Path)
			}
			t.Logf("%d states", found.States)
		})
	}
}

// Without the rule, a promise breaks. The test finds the shortest way to that.
var needs = []struct {
	name   string
	off    rule
	in     system
	breaks string
}{
	{"what was released is ended again", releasesRepeat, system{capacity: 1, ids: 1, faults: once}, stays},
	{"so is what was cancelled", cancelsRepeat, system{capacity: 1, ids: 1, faults: givesUp}, stays},
	{"ids in use stay", usedStay, system{capacity: 2, ids: 2, faults: once}, kills},
	{"later ids stay", laterStay, system{capacity: 1, ids: 2, faults: once}, kills},
	{"what is in use is read after the numbers", numbersFirst, system{capacity: 2, ids: 3, faults: once}, kills},
	{"each recovery repeats all", eachTime, system{capacity: 1, ids: 1, faults: twice}, stays},
	{"an end that is confirmed late is repeated", latePlansAgain, system{capacity: 1, ids: 1, faults: once}, stays},
	{"a hold that an answer names is ended", namedIsDisowned, system{capacity: 1, ids: 2, blind: true, faults: once}, stays},
}

const (
	stays = "a hold that has ended stays"
	kills = "a hold in use was ended"
)

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			y := n.in
			y.off = n.off
			found := y.search()
			if found.Broken != n.breaks {
				t.Fatalf("without it, %q breaks in %d states, want %q:\n%s", found.Broken, found.States, n.breaks, found.Path)
			}
			t.Logf("without it, %s after %d states:\n%s", found.Broken, found.States, found.Path)
		})
	}
	if untested != 0 {
		t.Errorf("no test switches off the rules %b", untested)
	}
}

func (y *system) search() states.Found {
	return states.Search(state{faults: y.faults, ended: -1}, y.moves, y.broken)
}
