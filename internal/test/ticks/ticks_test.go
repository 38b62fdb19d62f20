package ticks

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

// Calls of replicas with different clocks.
var (
	oneTick  = []start{{0, 0}, {0, -2}, {0, 2}}
	skewed   = []start{{0, -2}, {0, within + 3}, {0, 1}}
	pair     = []start{{0, -2}, {0, 2}}
	spread   = []start{{0, -within}, {0, within}, {0, 0}}
	twoTicks = []start{{0, 1}, {1, -2}, {0, 0}}
)

func TestNoStateBreaksAPromise(t *testing.T) {
	states.Unbroken(t, map[string]system{
		"crashes":               {calls: oneTick, faults: faults{deaths: 3}},
		"lost answers":          {calls: oneTick, faults: faults{losses: 2, deaths: 1}},
		"pauses":                {calls: oneTick, faults: faults{pauses: 2, deaths: 1}},
		"late copies":           {calls: oneTick, faults: faults{copies: 2, losses: 1, pauses: 1, quits: 1}},
		"early steps":           {calls: oneTick, faults: faults{early: 2, pauses: 1}},
		"refusals and failures": {calls: oneTick, faults: faults{refusals: 1, failures: 1, deaths: 1}},
		"a clock that is off":   {calls: skewed, faults: faults{deaths: 1, losses: 1}},
		"two ticks":             {calls: twoTicks, faults: faults{deaths: 1, pauses: 1, losses: 1}},
		"a server without data": {calls: spread, faults: faults{restarts: 1, deaths: 1, losses: 1}},
		"all faults":            {calls: pair, faults: faults{1, 1, 1, 1, 1, 1, 1, 1, 0}},
	})
}

// Each switched-off rule breaks a promise. The test finds the shortest path to that.
var needs = []states.Need[rule, system]{
	states.Without("there is one lock for all ticks of a job", oneLock, system{calls: twoTicks}.without, alone),
	states.Without("a replica waits for a busy lock", busyIsWaitedFor, system{calls: pair}.without, elsewhere),
	states.Without("begin looks for the mark", marksAreRead, system{calls: pair}.without, once),
	states.Without("the server's clock decides whether it is time", clockIsChecked, system{calls: skewed}.without, inTime),
	states.Without("only the holder of the lock begins a tick", holdIsCompared, system{calls: oneTick, faults: faults{copies: 1, pauses: 1, deaths: 1}}.without, begunTwo),
	states.Without("a repeated begin counts once", copiesAreKnown, system{calls: pair, faults: faults{losses: 2}}.without, begunTwo),
	states.Without("a tick that was begun twice is not begun again", begunIsCounted, system{calls: oneTick, faults: faults{deaths: 2}}.without, once),
	states.Without("an answer after the loss of the lock starts no run", lateIsUnused, system{calls: pair, faults: faults{early: 1, pauses: 1}}.without, once),
	states.Without("marks last for as long as a clock may be off", notesLast, system{calls: pair}.without, once),
	states.Without("the mark is written before the release", markIsFirst, system{calls: pair}.without, once),
	states.Without("an unanswered mark is written again", markIsRepeated, system{calls: pair, faults: faults{losses: 1}}.without, once),
	states.Without("a failed run is marked", failureIsMarked, system{calls: pair, faults: faults{failures: 1}}.without, once),
	states.Without("a run that lost its lock is not marked", lossIsNotMarked, system{calls: oneTick, faults: faults{pauses: 1, deaths: 1}}.without, elsewhere),
	states.Without("a quarantine is longer than a tick", quarantineLasts, system{calls: spread, faults: faults{restarts: 1}}.without, once),
	states.Without("without a mark the lock stays taken", unmarkedKeeps, system{calls: pair, faults: faults{refusals: 1}}.without, once),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }

func (y system) without(off rule) system {
	y.off = off
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	return states.Search(state{faults: y.faults}, y.moves, func(s *state) string { return string(s.check()) })
}
