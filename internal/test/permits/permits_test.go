package permits

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

func (y system) without(off rule) system {
	y.off = off
	return y
}

// Search implements states.System.
func (y system) Search() states.Found {
	y.reaped = max(y.reaped, 1)
	first := state{copies: y.copies, cuts: y.cuts, quits: y.quits, lock: y.locks, next: 127}
	return states.Search(first, y.moves, (*state).broken)
}

// The systems have only the necessary faults.
var (
	repeated = system{processes: 2, weights: [most]int8{1, 1}, n: [most]int8{1, 1}, attempts: 2, end: 3, copies: 1}
	cutOff   = system{processes: 2, weights: [most]int8{1, 1}, n: [most]int8{1, 1}, attempts: 1, end: 3, cuts: 1}
	heavy    = system{processes: 3, weights: [most]int8{1, 2, 1}, n: [most]int8{2, 2, 2}, attempts: 1, end: 2}
	rollOut  = system{processes: 3, weights: [most]int8{1, 1, 1}, n: [most]int8{2, 1, 2}, attempts: 1, end: 2}
	quitting = system{processes: 2, weights: [most]int8{1, 1}, n: [most]int8{1, 1}, attempts: 2, end: 3, quits: 1}
	lapsing  = system{processes: 2, weights: [most]int8{1, 1}, n: [most]int8{1, 1}, attempts: 1, end: 4}
	wide     = system{processes: 2, weights: [most]int8{1, 1}, n: [most]int8{2, 2}, attempts: 2, end: 4}
	crashing = system{processes: 3, weights: [most]int8{1, 1, 2}, n: [most]int8{2, 2, 2}, attempts: 1, end: 3}
	cutTwice = system{processes: 2, weights: [most]int8{1, 1}, n: [most]int8{1, 1}, attempts: 2, end: 1, cuts: 1}
	mixed    = system{processes: 2, weights: [most]int8{1, 1}, n: [most]int8{1, 1}, attempts: 1, end: 4, locks: 1}
)

func TestNoMorePermitsThanAgreed(t *testing.T) {
	states.Unbroken(t, map[string]system{
		"commands run twice": repeated, "scripts are cut off": cutOff, "a heavy permit": heavy, "a roll-out": rollOut,
		"a call gives up": quitting, "a lock of the same key": mixed,
		"leases expire": lapsing, "two permits": wide,
	})
}

// Each switched-off rule breaks a promise. The test finds the shortest path to that.
var needs = []states.Need[rule, system]{
	states.Without("a grant goes by the granted permit's own n", ownCapacity, rollOut.without, "more permits than n"),
	states.Without("an expired permit is not renewed", lapsedIsOver, crashing.without, "two permits share a slot"),
	states.Without("an expired permit does not count", lapsedIsReaped, mixed.without, "the head waits although it fits"),
	states.Without("a permit is written together with the counts", oneWrite, cutOff.without, "the counted permits are not the live ones"),
	states.Without("a grant is published after it is written", pushIsLast, cutTwice.without, "more permits than n"),
	states.Without("no call overtakes a ticket", strictOrder, heavy.without, "a ticket was overtaken"),
	states.Without("a head that does not fit is not overtaken", headFirst, heavy.without, "a ticket was overtaken"),
	states.Without("a release grants", releaseGrants, repeated.without, "the head waits although it fits"),
	states.Without("the hash lives until its last permit has ended", ttlIsLatest, wide.without, "two permits share a slot"),
	states.Without("the hash lives while a call waits", ttlCoversQueue, mixed.without, "a lock while a call waits for a permit"),
	states.Without("no permit is granted while a lock is held", kindsAreCompared, mixed.without, "a permit while a lock is held"),
	states.Without("an ended id is refused", doneIsRefused, quitting.without, "a permit or ticket is left behind"),
	states.Without("a call that ends cancels its id", endIsUndone, quitting.without, "a permit or ticket is left behind"),
	states.Without("a push counts only if its token is above the stamp", stampIsCompared, repeated.without, "a permit or ticket is left behind"),
	states.Without("a push counts only within the accept window", windowIsChecked, lapsing.without, "more permits than n"),
	states.Without("a deadline counts from when the command was sent", deadlineFirst, lapsing.without, "more permits than n"),
	states.Without("each grant takes the next token", tokensRise, wide.without, "a slot has no greater token than before"),
	states.Without("a grant takes free slots", slotsAreMapped, wide.without, "two permits share a slot"),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }
