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

// The systems have only the faults that are necessary.
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
		"commands run twice": repeated, "scripts are cut off": cutOff, "a heavy one": heavy, "a roll-out": rollOut,
		"a call gives up": quitting, "a lock of the same key": mixed,
		"leases run out": lapsing, "two at a time": wide,
	})
}

// Without the rule, the promise is broken. The test finds the shortest way to that.
var needs = []states.Need[rule, system]{
	states.Without("a grant asks for the granted one's own n", ownCapacity, rollOut.without, "more permits than n"),
	states.Without("a permit that is over is not renewed", lapsedIsOver, crashing.without, "two have a slot"),
	states.Without("it counts no longer", lapsedIsReaped, mixed.without, "the head waits though it fits"),
	states.Without("a permit is written together with what counts it", oneWrite, cutOff.without, "permits are counted that are not there, or not counted"),
	states.Without("a grant is published when it is written", pushIsLast, cutTwice.without, "more permits than n"),
	states.Without("nobody overtakes a ticket", strictOrder, heavy.without, "one was overtaken"),
	states.Without("not even one that does not fit", headFirst, heavy.without, "one was overtaken"),
	states.Without("a release grants", releaseGrants, repeated.without, "the head waits though it fits"),
	states.Without("the hash lives until its last permit has ended", ttlIsLatest, wide.without, "two have a slot"),
	states.Without("and while somebody waits", ttlCoversQueue, mixed.without, "a lock while somebody waits for a permit"),
	states.Without("no permit is granted beside a lock", kindsAreTold, mixed.without, "a permit beside a lock"),
	states.Without("an id that is over is refused", doneIsRefused, quitting.without, "nobody knows of what is left"),
	states.Without("a call that ends cancels its id", endIsUndone, quitting.without, "nobody knows of what is left"),
	states.Without("a push counts only if its token is above the stamp", stampIsCompared, repeated.without, "nobody knows of what is left"),
	states.Without("a push counts only within the accept window", windowIsChecked, lapsing.without, "more permits than n"),
	states.Without("a deadline counts from when the command was sent", deadlineFirst, lapsing.without, "more permits than n"),
	states.Without("each grant takes the next token", tokensRise, wide.without, "a slot has no greater token than before"),
	states.Without("a grant takes slots that nobody has", slotsAreMapped, wide.without, "two have a slot"),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }
