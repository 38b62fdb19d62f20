package losses

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

var (
	once    = faults{saves: 1, losses: 1}
	twice   = faults{saves: 1, losses: 2}
	givesUp = faults{saves: 1, losses: 1, gives: 1}
)

func TestWhatHasEndedDoesNotComeBack(t *testing.T) {
	states.Unbroken(t, map[string]system{
		"one holds":              {capacity: 1, ids: 3, faults: givesUp},
		"several hold":           {capacity: 2, ids: 3, faults: once},
		"the server loses twice": {capacity: 2, ids: 2, faults: faults{saves: 2, losses: 2, gives: 1}},
		"nobody notices":         {capacity: 1, ids: 3, blind: true, faults: once},
	})
}

// Without the rule, a promise breaks. The test finds the shortest way to that.
var needs = []states.Need[rule, system]{
	states.Without("what was released is ended again", releasesRepeat, system{capacity: 1, ids: 1, faults: once}.without, stays),
	states.Without("so is what was cancelled", cancelsRepeat, system{capacity: 1, ids: 1, faults: givesUp}.without, stays),
	states.Without("ids in use stay", usedStay, system{capacity: 2, ids: 2, faults: once}.without, kills),
	states.Without("later ids stay", laterStay, system{capacity: 1, ids: 2, faults: once}.without, kills),
	states.Without("what is in use is read after the numbers", numbersFirst, system{capacity: 2, ids: 3, faults: once}.without, kills),
	states.Without("each recovery repeats all", eachTime, system{capacity: 1, ids: 1, faults: twice}.without, stays),
	states.Without("an end that is confirmed late is repeated", latePlansAgain, system{capacity: 1, ids: 1, faults: once}.without, stays),
	states.Without("a hold that an answer names is ended", namedIsDisowned, system{capacity: 1, ids: 2, blind: true, faults: once}.without, stays),
}

const (
	stays = "a hold that has ended stays"
	kills = "a hold in use was ended"
)

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }

func (y system) without(off rule) system {
	y.off = off
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	return states.Search(state{faults: y.faults, ended: -1}, y.moves, y.broken)
}
