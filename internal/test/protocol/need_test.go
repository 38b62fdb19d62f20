package protocol

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
)

// The systems in which rules are switched off have only the faults that are necessary to break a promise.
var (
	repeated = system{roles: two(plain), acquires: 2, polls: 1, faults: faults{replays: 1, delays: 1}}
	slow     = system{roles: two(plain), acquires: 2, polls: 1, faults: faults{delays: 1}}
	quitting = system{roles: two(plain), acquires: 2, polls: 1, faults: faults{cancels: 1}}
	trying   = system{roles: two(plain), acquires: 1, polls: 1, tries: true, faults: faults{replays: 1}}
	mortal   = system{roles: three(plain), acquires: 1, polls: 1, faults: faults{deaths: 1}}

	rereading = system{roles: [maxProcesses]role{writer, reader}, acquires: 1, polls: 1, faults: faults{replays: 1, delays: 1}}
	crossing  = system{roles: [maxProcesses]role{writer, reader, reader}, acquires: 2, faults: faults{replays: 1, delays: 1}}
	sharing   = system{roles: [maxProcesses]role{writer, reader}, acquires: 1, polls: 1, faults: faults{cancels: 1}}
	readers   = system{roles: [maxProcesses]role{writer, reader, reader}, acquires: 1, polls: 1}
	rereaders = system{roles: [maxProcesses]role{writer, reader, reader}, acquires: 2, polls: 1}
	writers   = system{roles: [maxProcesses]role{writer, writer, reader}, acquires: 1, polls: 1, faults: faults{replays: 1}}
	batches   = system{roles: [maxProcesses]role{writer, both, reader}, acquires: 2, polls: 1, batch: 1, faults: faults{cancels: 1}}
	dying     = system{roles: [maxProcesses]role{writer, reader, reader}, acquires: 1, polls: 1, faults: faults{deaths: 1}}
	returning = system{roles: [maxProcesses]role{fair, reader}, acquires: 3, polls: 1, faults: faults{cancels: 1}}
	cutOff    = system{roles: two(writer), acquires: 2, polls: 1, faults: faults{cuts: 1}}
	inRuns    = system{roles: [maxProcesses]role{runner, runner, plain}, acquires: 2, polls: 1}
	runsAgain = system{roles: [maxProcesses]role{runner, runner, runner}, acquires: 1, polls: 1, faults: faults{replays: 1}}
	runsEnd   = system{roles: [maxProcesses]role{runner, runner, plain}, acquires: 1, polls: 1, faults: faults{cancels: 1}}
	runsLapse = system{roles: [maxProcesses]role{runner, runner, plain}, acquires: 2, polls: 1, faults: faults{delays: 1}}
	runsLost  = system{roles: three(runner), acquires: 1, polls: 1, faults: faults{losses: 1}}
	runsRead  = system{roles: [maxProcesses]role{runner, runner, reader}, acquires: 2, polls: 1, faults: faults{delays: 1}}
	forging   = system{roles: two(plain), acquires: 1, polls: 1, faults: faults{forgeries: 1}}
	changing  = system{roles: two(plain), acquires: 2, polls: 1, faults: faults{replays: 1, delays: 1, forgeries: 1}}
	losing    = system{roles: [maxProcesses]role{fair, plain}, acquires: 2, polls: 1, faults: faults{delays: 1}}
)

// Without the rule, the promise is broken. The test finds the shortest way to that.
var needs = []struct {
	name    string
	off     rule
	in      system
	promise string
}{
	{"ids live once", idsAreNew, quitting, "ME"},
	{"release compares the id, not the owner", idsAreCompared, repeated, "ME"},
	{"acquire refuses ids that are over", doneIsRefused, quitting, "no ghost"},
	{"an undo marks the id as over", undoMarks, quitting, "no ghost"},
	{"a ticket that takes the place of a lost one marks the lost one", requeueMarks, repeated, "no ghost"},
	{"release marks an id of which there are copies", releaseMarks, repeated, "no ghost"},
	{"a hand-over marks an id of which there are copies", handOverMarks, repeated, "no ghost"},
	{"a cancel of what was lost marks an id of which there are copies", lossMarks, repeated, "no ghost"},
	{"a release in vain is followed by a cancel if there are copies", vainIsUndone, repeated, "no ghost"},
	{"a busy try is cancelled if there are copies", busyIsUndone, trying, "no ghost"},
	{"an acquire with an unknown outcome is cancelled", endIsUndone, quitting, "no ghost"},
	{"a cancel ends a hold too", cancelFrees, quitting, "no ghost"},
	{"a lost hold is cancelled", lossIsReleased, slow, "no ghost"},
	{"a push counts only if its token is above the stamp", stampIsCompared, repeated, "ME"},
	{"a push counts only within the accept window", windowIsChecked, slow, "ME"},
	{"a grant that comes too late does not count", lateIsUnused, slow, "ME"},
	{"it is polled for, and not given up", lateIsPolled, slow, "order"},
	{"a deadline is earlier than the server's expiry", deadlineIsFirst, slow, "ME"},
	{"a renewal does not move a deadline that has passed", lapseIsLoss, repeated, "F"},
	{"each grant takes the next token", tokensRise, slow, "F"},
	{"a waiter polls", polls, mortal, stuck},
	{"a poll grants a free lock", settles, mortal, stuck},
	{"a grant that is not accepted expires", grantsExpire, mortal, stuck},
	{"dead tickets are reaped", deadAreReaped, mortal, stuck},

	{"acquire does nothing for an id that reads", heldIsAnswered, rereading, "leases"},
	{"a request that is admitted at once leaves no ticket", takersLeave, rereading, "leases"},
	{"the renewal of a reader adds no reader", renewalsTouch, rereading, "no ghost"},
	{"readers are admitted with a number of their own", numberIsReserved, crossing, "ME"},
	{"a reader ends its own hold only", ownShareEnds, readers, "ME"},
	{"from the request for a downgrade on, the hold excludes no readers", downgradeReads, sharing, "ME"},
	{"readers have the token of the writer before", readersFollow, sharing, "F"},
	{"the end of a writer admits readers", readersGoFirst, writers, "fairness"},
	{"the end of a phase of readers admits a writer", writersGoFirst, readers, "fairness"},
	{"so that a waiting writer has its turn", writersGoFirst, rereaders, "turns"},
	{"all waiting readers are admitted together", allAtOnce, readers, "fairness"},
	{"no writer comes in between if several runs admit them", restIsAdmitted, batches, "fairness"},
	{"a reader that comes while a writer waits is queued", writersHoldBack, readers, "fairness"},
	{"a dead writer holds nobody back", deadHoldNobody, dying, "fairness"},
	{"a downgrade admits readers", downgradesAdmit, readers, "fairness"},
	{"a repeated downgrade admits nobody", downgradeIsOnce, writers, "fairness"},
	{"release ends a kept place", keptIsReleased, returning, "places"},
	{"so does the cancel that follows an unanswered release", keptIsUndone, returning, "places"},
	{"so does the cancel of a hold that was lost", lossEndsPlace, losing, "places"},
	{"cancel keeps no place that has ended", placeIsCompared, returning, "places"},
	{"a grant is published when it is written", pushIsLast, cutOff, "ME"},
	{"a downgrade changes the hold in place", holdIsNeverAway, cutOff, "ME"},

	{"a run ends before the first ticket that is not one of it", runIsInOrder, runsLapse, "order"},
	{"a grant reserves a token for each of its run", runHasTokens, inRuns, "F"},
	{"there is no run while somebody waits to read", readersEndRuns, runsRead, "fairness"},
	{"a reader behind a run ends it", latecomersEndIt, runsRead, "fairness"},
	{"a lease is passed to calls only whose acquire is answered", answeredAreNext, runsAgain, "no ghost"},
	{"a pass marks the next one if there are copies", passMarks, runsAgain, "no ghost"},
	{"a lease whose deadline has passed is passed to nobody", lapsedIsKept, runsLapse, "ME"},
	{"a grant of an id of the run proves that the lease is lost", grantIsLoss, runsLost, "ME"},
	{"release takes off those who were served", releaseEndsRun, inRuns, "no ghost"},
	{"it does so before it grants", servedGoFirst, inRuns, "no ghost"},
	{"so does the cancel that follows a release in vain", vainEndsRun, runsLost, "no ghost"},
	{"so does the cancel that follows a release without an answer", undoEndsRun, runsEnd, "no ghost"},
	{"so does the cancel of a lease that was lost", lossEndsRun, runsLapse, "no ghost"},

	{"a push counts only if it proves that a script wrote it", pushIsProven, forging, "ME"},
	{"the proof is for all that it says", proofIsWhole, changing, "ME"},
}

func TestEachRuleIsNeeded(t *testing.T) {
	race.FindsNothing(t)
	untested := rule(allRules)
	for _, n := range needs {
		untested &^= n.off
		t.Run(n.name, func(t *testing.T) {
			n.in.off = n.off
			h := n.in.newSearch()
			found := h.find(n.promise)
			if found < 0 {
				t.Fatalf("without it, nothing is found in %d states", len(h.hashes))
			}
			t.Logf("without it, %s is broken after %d states:\n%s", n.promise, len(h.hashes), h.trace(found))
		})
	}
	if untested != 0 {
		t.Errorf("no test switches off the rules %b", untested)
	}
}

// find returns the nearest state that breaks a promise, or -1.
func (h *search) find(promise string) int {
	if promise == stuck {
		h.run(func(*system, *state) string { return "" })
		return h.stuck()
	}
	i, _ := h.run(promises[promise])
	return i
}
