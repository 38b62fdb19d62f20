package permits

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/states"
	"github.com/lockmw/go/internal/test/suite"
)

func (y *system) search() states.Found {
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
	race.FindsNothing(t)
	for name, y := range map[string]system{
		"commands run twice": repeated, "scripts are cut off": cutOff, "a heavy one": heavy, "a roll-out": rollOut,
		"a call gives up": quitting, "a lock of the same key": mixed,
		"leases run out": lapsing, "two at a time": wide,
	} {
		t.Run(name, func(t *testing.T) {
			if !suite.Full() {
				y.end--
			}
			found := y.search()
			if found.Broken != "" {
				t.Fatalf("after %d states: %s:\n%s", found.States, found.Broken, found.Path)
			}
			t.Logf("%d states", found.States)
		})
	}
}

// Without the rule, the promise is broken. The test finds the shortest way to that.
var needs = []struct {
	name    string
	off     rule
	in      system
	promise string
}{
	{"a grant asks for the granted one's own n", ownCapacity, rollOut, "more permits than n"},
	{"a permit that is over is not renewed", lapsedIsOver, crashing, "two have a slot"},
	{"it counts no longer", lapsedIsReaped, mixed, "the head waits though it fits"},
	{"a permit is written together with what counts it", oneWrite, cutOff, "permits are counted that are not there, or not counted"},
	{"a grant is published when it is written", pushIsLast, cutTwice, "more permits than n"},
	{"nobody overtakes a ticket", strictOrder, heavy, "one was overtaken"},
	{"not even one that does not fit", headFirst, heavy, "one was overtaken"},
	{"a release grants", releaseGrants, repeated, "the head waits though it fits"},
	{"the hash lives until its last permit has ended", ttlIsLatest, wide, "two have a slot"},
	{"and while somebody waits", ttlCoversQueue, mixed, "a lock while somebody waits for a permit"},
	{"no permit is granted beside a lock", kindsAreTold, mixed, "a permit beside a lock"},
	{"an id that is over is refused", doneIsRefused, quitting, "nobody knows of what is left"},
	{"a call that ends cancels its id", endIsUndone, quitting, "nobody knows of what is left"},
	{"a push counts only if its token is above the stamp", stampIsCompared, repeated, "nobody knows of what is left"},
	{"a push counts only within the accept window", windowIsChecked, lapsing, "more permits than n"},
	{"a deadline counts from when the command was sent", deadlineFirst, lapsing, "more permits than n"},
	{"each grant takes the next token", tokensRise, wide, "a slot has no greater token than before"},
	{"a grant takes slots that nobody has", slotsAreMapped, wide, "two have a slot"},
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			if n.off&(lapsedIsOver|ttlIsLatest|stampIsCompared) != 0 {
				suite.NeedsFull(t, "the way to what breaks is long")
			}
			n.in.off = n.off
			found := n.in.search()
			if found.Broken != n.promise {
				t.Fatalf("without it, %q is found in %d states, want %q\n%s", found.Broken, found.States, n.promise, found.Path)
			}
			t.Logf("without it, %s after %d states:\n%s", found.Broken, found.States, found.Path)
		})
	}
	if untested != 0 {
		t.Errorf("no test switches off the rules %b", untested)
	}
}
