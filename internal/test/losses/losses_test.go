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

func TestEndedHoldsDoNotComeBack(t *testing.T) {
	states.Unbroken(t, map[string]system{
		"one holder":              {capacity: 1, ids: 3, faults: givesUp},
		"several holders":         {capacity: 2, ids: 3, faults: once},
		"two losses":              {capacity: 2, ids: 2, faults: faults{saves: 2, losses: 2, gives: 1}},
		"the loss is not noticed": {capacity: 1, ids: 3, blind: true, faults: once},
	})
}

// Each switched-off rule breaks a promise. The test finds the shortest path to that.
var needs = []states.Need[rule, system]{
	states.Without("released ids are ended again", releasesRepeat, system{capacity: 1, ids: 1, faults: once}.without, stays),
	states.Without("cancelled ids are ended again", cancelsRepeat, system{capacity: 1, ids: 1, faults: givesUp}.without, stays),
	states.Without("ids in use stay", usedStay, system{capacity: 2, ids: 2, faults: once}.without, kills),
	states.Without("newer ids stay", laterStay, system{capacity: 1, ids: 2, faults: once}.without, kills),
	states.Without("the ids in use are read after the numbers", numbersFirst, system{capacity: 2, ids: 3, faults: once}.without, kills),
	states.Without("each recovery repeats everything", eachTime, system{capacity: 1, ids: 1, faults: twice}.without, stays),
	states.Without("an end that is confirmed late is repeated", latePlansAgain, system{capacity: 1, ids: 1, faults: once}.without, stays),
	states.Without("an ended hold that an answer names is ended again", namedIsDisowned, system{capacity: 1, ids: 2, blind: true, faults: once}.without, stays),
}

const (
	stays = "an ended hold stays"
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
