package protocol

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

// The systems in which rules are switched off have only the faults that are necessary to break a promise.
var (
	repeated = system{roles: two(plain), acquires: 2, polls: 1, faults: faults{replays: 1, delays: 1}}
	peeking  = system{roles: two(plain), acquires: 2, polls: 1, peeks: true, faults: faults{replays: 1, delays: 1}}
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
var needs = []states.Need[rule, quest]{
	states.Without("ids live once", idsAreNew, quitting.breaking("ME"), "ME"),
	states.Without("release compares the id, not the owner", idsAreCompared, repeated.breaking("ME"), "ME"),
	states.Without("acquire refuses ids that are over", doneIsRefused, quitting.breaking("no ghost"), "no ghost"),
	states.Without("an undo marks the id as over", undoMarks, quitting.breaking("no ghost"), "no ghost"),
	states.Without("a ticket that takes the place of a lost one marks the lost one", requeueMarks, repeated.breaking("no ghost"), "no ghost"),
	states.Without("release marks an id of which there are copies", releaseMarks, repeated.breaking("no ghost"), "no ghost"),
	states.Without("a hand-over marks an id of which there are copies", handOverMarks, repeated.breaking("no ghost"), "no ghost"),
	states.Without("a cancel of what was lost marks an id of which there are copies", lossMarks, repeated.breaking("no ghost"), "no ghost"),
	states.Without("a release in vain is followed by a cancel if there are copies", vainIsUndone, repeated.breaking("no ghost"), "no ghost"),
	states.Without("a busy try is cancelled if there are copies", busyIsUndone, trying.breaking("no ghost"), "no ghost"),
	states.Without("an acquire with an unknown outcome is cancelled", endIsUndone, quitting.breaking("no ghost"), "no ghost"),
	states.Without("a cancel ends a hold too", cancelFrees, quitting.breaking("no ghost"), "no ghost"),
	states.Without("a lost hold is cancelled", lossIsReleased, slow.breaking("no ghost"), "no ghost"),
	states.Without("a push counts only if its token is above the stamp", stampIsCompared, repeated.breaking("ME"), "ME"),
	states.Without("a push counts only within the accept window", windowIsChecked, slow.breaking("ME"), "ME"),
	states.Without("a grant that comes too late does not count", lateIsUnused, slow.breaking("ME"), "ME"),
	states.Without("it is polled for, and not given up", lateIsPolled, slow.breaking("order"), "order"),
	states.Without("a deadline is earlier than the server's expiry", deadlineIsFirst, slow.breaking("ME"), "ME"),
	states.Without("a renewal does not move a deadline that has passed", lapseIsLoss, repeated.breaking("F"), "F"),
	states.Without("each grant takes the next token", tokensRise, slow.breaking("F"), "F"),
	states.Without("a waiter polls", polls, mortal.breaking(stuck), stuck),
	states.Without("a poll grants a free lock", settles, mortal.breaking(stuck), stuck),
	states.Without("a grant that is not accepted expires", grantsExpire, mortal.breaking(stuck), stuck),
	states.Without("a peek that says that nothing is new has a stamp", peeksAreStamped, peeking.breaking("ME"), "ME"),
	states.Without("a process that waits beats", waitersBeat, mortal.breaking("live"), "live"),
	states.Without("a new ticket shows that its process lives", queuersAreSeen, quitting.breaking("live"), "live"),
	states.Without("dead tickets are reaped", deadAreReaped, mortal.breaking(stuck), stuck),

	states.Without("acquire does nothing for an id that reads", heldIsAnswered, rereading.breaking("leases"), "leases"),
	states.Without("a request that is admitted at once leaves no ticket", takersLeave, rereading.breaking("leases"), "leases"),
	states.Without("the renewal of a reader adds no reader", renewalsTouch, rereading.breaking("no ghost"), "no ghost"),
	states.Without("readers are admitted with a number of their own", numberIsReserved, crossing.breaking("ME"), "ME"),
	states.Without("a reader ends its own hold only", ownShareEnds, readers.breaking("ME"), "ME"),
	states.Without("from the request for a downgrade on, the hold excludes no readers", downgradeReads, sharing.breaking("ME"), "ME"),
	states.Without("readers have the token of the writer before", readersFollow, sharing.breaking("F"), "F"),
	states.Without("the end of a writer admits readers", readersGoFirst, writers.breaking("fairness"), "fairness"),
	states.Without("the end of a phase of readers admits a writer", writersGoFirst, readers.breaking("fairness"), "fairness"),
	states.Without("so that a waiting writer has its turn", writersGoFirst, rereaders.breaking("turns"), "turns"),
	states.Without("all waiting readers are admitted together", allAtOnce, readers.breaking("fairness"), "fairness"),
	states.Without("no writer comes in between if several runs admit them", restIsAdmitted, batches.breaking("fairness"), "fairness"),
	states.Without("a reader that comes while a writer waits is queued", writersHoldBack, readers.breaking("fairness"), "fairness"),
	states.Without("a dead writer holds nobody back", deadHoldNobody, dying.breaking("fairness"), "fairness"),
	states.Without("a downgrade admits readers", downgradesAdmit, readers.breaking("fairness"), "fairness"),
	states.Without("a repeated downgrade admits nobody", downgradeIsOnce, writers.breaking("fairness"), "fairness"),
	states.Without("release ends a kept place", keptIsReleased, returning.breaking("places"), "places"),
	states.Without("so does the cancel that follows an unanswered release", keptIsUndone, returning.breaking("places"), "places"),
	states.Without("so does the cancel of a hold that was lost", lossEndsPlace, losing.breaking("places"), "places"),
	states.Without("cancel keeps no place that has ended", placeIsCompared, returning.breaking("places"), "places"),
	states.Without("a grant is published when it is written", pushIsLast, cutOff.breaking("ME"), "ME"),
	states.Without("a downgrade changes the hold in place", holdIsNeverAway, cutOff.breaking("ME"), "ME"),

	states.Without("a run ends before the first ticket that is not one of it", runIsInOrder, runsLapse.breaking("order"), "order"),
	states.Without("a grant reserves a token for each of its run", runHasTokens, inRuns.breaking("F"), "F"),
	states.Without("there is no run while somebody waits to read", readersEndRuns, runsRead.breaking("fairness"), "fairness"),
	states.Without("a reader behind a run ends it", latecomersEndIt, runsRead.breaking("fairness"), "fairness"),
	states.Without("a lease is passed to calls only whose acquire is answered", answeredAreNext, runsAgain.breaking("no ghost"), "no ghost"),
	states.Without("a pass marks the next one if there are copies", passMarks, runsAgain.breaking("no ghost"), "no ghost"),
	states.Without("a lease whose deadline has passed is passed to nobody", lapsedIsKept, runsLapse.breaking("ME"), "ME"),
	states.Without("a grant of an id of the run proves that the lease is lost", grantIsLoss, runsLost.breaking("ME"), "ME"),
	states.Without("release takes off those who were served", releaseEndsRun, inRuns.breaking("no ghost"), "no ghost"),
	states.Without("it does so before it grants", servedGoFirst, inRuns.breaking("no ghost"), "no ghost"),
	states.Without("so does the cancel that follows a release in vain", vainEndsRun, runsLost.breaking("no ghost"), "no ghost"),
	states.Without("so does the cancel that follows a release without an answer", undoEndsRun, runsEnd.breaking("no ghost"), "no ghost"),
	states.Without("so does the cancel of a lease that was lost", lossEndsRun, runsLapse.breaking("no ghost"), "no ghost"),

	states.Without("a push counts only if it proves that a script wrote it", pushIsProven, forging.breaking("ME"), "ME"),
	states.Without("the proof is for all that it says", proofIsWhole, changing.breaking("ME"), "ME"),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }

// A quest is for what breaks one promise.
type quest struct {
	system
	promise string
}

// breaking returns what searches the system without some rules.
func (y system) breaking(promise string) func(off rule) quest {
	return func(off rule) quest {
		y.off = off
		return quest{y, promise}
	}
}

// Search implements states.System.
func (q quest) Search() states.Found {
	h := q.newSearch()
	if q.promise == stuck {
		h.run(func(*system, *state) string { return "" })
		return h.found(h.stuck(), stuck)
	}
	i, _ := h.run(promises[q.promise])
	return h.found(i, q.promise)
}
