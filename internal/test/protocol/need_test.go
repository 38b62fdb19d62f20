package protocol

import (
	"testing"

	"github.com/lockmw/go/internal/test/states"
)

// The systems in which rules are switched off have only the faults that break a promise.
var (
	repeated = system{roles: two(plain), acquires: 2, polls: 1, faults: faults{replays: 1, delays: 1}}
	peeking  = system{roles: two(plain), acquires: 2, polls: 1, peeks: true, faults: faults{replays: 1, delays: 1}}
	slow     = system{roles: two(plain), acquires: 2, polls: 1, faults: faults{delays: 1}}
	quitting = system{roles: two(plain), acquires: 2, polls: 1, faults: faults{cancels: 1}}
	trying   = system{roles: two(plain), acquires: 1, polls: 1, tries: true, faults: faults{replays: 1}}
	mortal   = system{roles: three(plain), acquires: 1, polls: 1, faults: faults{deaths: 1}}

	rereading   = system{roles: [maxProcesses]role{writer, reader}, acquires: 1, polls: 1, faults: faults{replays: 1, delays: 1}}
	crossing    = system{roles: [maxProcesses]role{writer, reader, reader}, acquires: 2, faults: faults{replays: 1, delays: 1}}
	sharing     = system{roles: [maxProcesses]role{writer, reader}, acquires: 1, polls: 1, faults: faults{cancels: 1}}
	readers     = system{roles: [maxProcesses]role{writer, reader, reader}, acquires: 1, polls: 1}
	rereaders   = system{roles: [maxProcesses]role{writer, reader, reader}, acquires: 2, polls: 1}
	writers     = system{roles: [maxProcesses]role{writer, writer, reader}, acquires: 1, polls: 1, faults: faults{replays: 1}}
	portions    = system{roles: [maxProcesses]role{writer, both, reader}, acquires: 2, polls: 1, maxAdmitted: 1, faults: faults{cancels: 1}}
	dying       = system{roles: [maxProcesses]role{writer, reader, reader}, acquires: 1, polls: 1, faults: faults{deaths: 1}}
	returning   = system{roles: [maxProcesses]role{fair, reader}, acquires: 3, polls: 1, faults: faults{cancels: 1}}
	cutOff      = system{roles: two(writer), acquires: 2, polls: 1, faults: faults{cuts: 1}}
	inBatch     = system{roles: [maxProcesses]role{batcher, batcher, plain}, acquires: 2, polls: 1}
	batchCopied = system{roles: [maxProcesses]role{batcher, batcher, batcher}, acquires: 1, polls: 1, faults: faults{replays: 1}}
	batchEnds   = system{roles: [maxProcesses]role{batcher, batcher, plain}, acquires: 1, polls: 1, faults: faults{cancels: 1}}
	batchLapses = system{roles: [maxProcesses]role{batcher, batcher, plain}, acquires: 2, polls: 1, faults: faults{delays: 1}}
	batchLost   = system{roles: three(batcher), acquires: 1, polls: 1, faults: faults{losses: 1}}
	batchRead   = system{roles: [maxProcesses]role{batcher, batcher, reader}, acquires: 2, polls: 1, faults: faults{delays: 1}}
	forging     = system{roles: two(plain), acquires: 1, polls: 1, faults: faults{forgeries: 1}}
	changing    = system{roles: two(plain), acquires: 2, polls: 1, faults: faults{replays: 1, delays: 1, forgeries: 1}}
	losing      = system{roles: [maxProcesses]role{fair, plain}, acquires: 2, polls: 1, faults: faults{delays: 1}}
)

// Each switched-off rule breaks a promise. The test finds the shortest path to that.
var needs = []states.Need[rule, quest]{
	states.Without("ids live once", idsAreNew, quitting.breaking("ME"), "ME"),
	states.Without("release compares the id, not the owner", idsAreCompared, repeated.breaking("ME"), "ME"),
	states.Without("acquire refuses ids with a done mark", doneIsRefused, quitting.breaking("no ghost"), "no ghost"),
	states.Without("an undo writes a done mark", undoMarks, quitting.breaking("no ghost"), "no ghost"),
	states.Without("a ticket that replaces a lost one marks the id of the lost one", requeueMarks, repeated.breaking("no ghost"), "no ghost"),
	states.Without("release marks an id if there are copies", releaseMarks, repeated.breaking("no ghost"), "no ghost"),
	states.Without("a hand-over marks an id if there are copies", handOverMarks, repeated.breaking("no ghost"), "no ghost"),
	states.Without("the cancel of a lost hold marks an id if there are copies", lossMarks, repeated.breaking("no ghost"), "no ghost"),
	states.Without("a release that found nothing is followed by a cancel if there are copies", vainIsUndone, repeated.breaking("no ghost"), "no ghost"),
	states.Without("a busy try is cancelled if there are copies", busyIsUndone, trying.breaking("no ghost"), "no ghost"),
	states.Without("an acquire with an unknown outcome is cancelled", endIsUndone, quitting.breaking("no ghost"), "no ghost"),
	states.Without("a cancel also ends a hold", cancelFrees, quitting.breaking("no ghost"), "no ghost"),
	states.Without("a lost hold is cancelled", lossIsReleased, slow.breaking("no ghost"), "no ghost"),
	states.Without("a push counts only if its token is above the stamp", stampIsCompared, repeated.breaking("ME"), "ME"),
	states.Without("a push counts only within the accept window", windowIsChecked, slow.breaking("ME"), "ME"),
	states.Without("a late grant starts no hold", lateIsUnused, slow.breaking("ME"), "ME"),
	states.Without("a late grant is polled for, and not given up", lateIsPolled, slow.breaking("order"), "order"),
	states.Without("a deadline is earlier than the server's expiry", deadlineIsFirst, slow.breaking("ME"), "ME"),
	states.Without("a late renewal does not revive a hold", lapseIsLoss, repeated.breaking("F"), "F"),
	states.Without("each grant takes the next token", tokensRise, slow.breaking("F"), "F"),
	states.Without("a waiter polls", polls, mortal.breaking(stuck), stuck),
	states.Without("a poll grants a free lock", pollsGrant, mortal.breaking(stuck), stuck),
	states.Without("a grant that is not accepted expires", grantsExpire, mortal.breaking(stuck), stuck),
	states.Without("a peek that finds nothing new has a stamp", peeksAreStamped, peeking.breaking("ME"), "ME"),
	states.Without("a process that waits beats", waitersBeat, mortal.breaking("live"), "live"),
	states.Without("a new ticket shows that its process lives", queuersAreSeen, quitting.breaking("live"), "live"),
	states.Without("dead tickets are reaped", deadAreReaped, mortal.breaking(stuck), stuck),

	states.Without("acquire changes nothing for an id that reads", heldIsAnswered, rereading.breaking("leases"), "leases"),
	states.Without("a request that is admitted immediately leaves no ticket", takersLeave, rereading.breaking("leases"), "leases"),
	states.Without("the renewal of a reader adds no reader", renewalsTouch, rereading.breaking("no ghost"), "no ghost"),
	states.Without("readers are admitted with a number of their own", numberIsReserved, crossing.breaking("ME"), "ME"),
	states.Without("a reader ends only its own hold", ownShareEnds, readers.breaking("ME"), "ME"),
	states.Without("once a downgrade is requested, the hold excludes no readers", downgradeReads, sharing.breaking("ME"), "ME"),
	states.Without("readers have the token of the write before them", readersFollow, sharing.breaking("F"), "F"),
	states.Without("the end of a writer admits readers", readersGoFirst, writers.breaking("fairness"), "fairness"),
	states.Without("the end of a phase of readers admits a writer", writersGoFirst, readers.breaking("fairness"), "fairness"),
	states.Without("the end of a phase of readers gives a waiting writer its turn", writersGoFirst, rereaders.breaking("turns"), "turns"),
	states.Without("all waiting readers are admitted together", allAtOnce, readers.breaking("fairness"), "fairness"),
	states.Without("no writer comes in between if several executions admit the readers", restIsAdmitted, portions.breaking("fairness"), "fairness"),
	states.Without("a reader that comes while a writer waits is queued", writersHoldBack, readers.breaking("fairness"), "fairness"),
	states.Without("a dead writer holds nobody back", deadHoldNobody, dying.breaking("fairness"), "fairness"),
	states.Without("a downgrade admits readers", downgradesAdmit, readers.breaking("fairness"), "fairness"),
	states.Without("a repeated downgrade admits nobody", downgradeIsOnce, writers.breaking("fairness"), "fairness"),
	states.Without("release ends a kept place", keptIsReleased, returning.breaking("places"), "places"),
	states.Without("the cancel after an unanswered release ends a kept place", keptIsUndone, returning.breaking("places"), "places"),
	states.Without("the cancel of a lost hold ends its kept place", lossEndsPlace, losing.breaking("places"), "places"),
	states.Without("cancel keeps no place that has ended", placeIsCompared, returning.breaking("places"), "places"),
	states.Without("a grant is published after it is written", pushIsLast, cutOff.breaking("ME"), "ME"),
	states.Without("a downgrade changes the hold in place", holdIsNeverAway, cutOff.breaking("ME"), "ME"),

	states.Without("a batch ends before the first other ticket", batchIsInOrder, batchLapses.breaking("order"), "order"),
	states.Without("a grant reserves a token for each member of its batch", batchHasTokens, inBatch.breaking("F"), "F"),
	states.Without("there is no batch while a reader waits", readersEndBatches, batchRead.breaking("fairness"), "fairness"),
	states.Without("a reader behind a batch ends it", latecomersEndIt, batchRead.breaking("fairness"), "fairness"),
	states.Without("a lease is passed only to calls whose acquire was answered", answeredAreNext, batchCopied.breaking("no ghost"), "no ghost"),
	states.Without("a pass marks the next id if there are copies", passMarks, batchCopied.breaking("no ghost"), "no ghost"),
	states.Without("a lease whose deadline has passed is not passed on", lapsedIsKept, batchLapses.breaking("ME"), "ME"),
	states.Without("a grant of an id of the batch proves that the lease is lost", grantIsLoss, batchLost.breaking("ME"), "ME"),
	states.Without("release removes the tickets of served calls", releaseEndsBatch, inBatch.breaking("no ghost"), "no ghost"),
	states.Without("release removes served tickets before it grants", servedGoFirst, inBatch.breaking("no ghost"), "no ghost"),
	states.Without("the cancel after a release that found nothing removes served tickets", vainEndsBatch, batchLost.breaking("no ghost"), "no ghost"),
	states.Without("the cancel after an unanswered release removes served tickets", undoEndsBatch, batchEnds.breaking("no ghost"), "no ghost"),
	states.Without("the cancel of a lost lease removes served tickets", lossEndsBatch, batchLapses.breaking("no ghost"), "no ghost"),

	states.Without("a push counts only if it proves that a script wrote it", pushIsProven, forging.breaking("ME"), "ME"),
	states.Without("the proof covers the whole message", proofIsWhole, changing.breaking("ME"), "ME"),
}

func TestEachRuleIsNeeded(t *testing.T) { states.EachIsNeeded(t, rule(allRules), needs) }

// A quest searches for a breach of one promise.
type quest struct {
	system
	promise string
}

// breaking returns a function that makes the quest without some rules.
func (y system) breaking(promise string) func(off rule) quest {
	return func(off rule) quest {
		y.off = off
		return quest{y, promise}
	}
}

// Search implements states.System.
func (q quest) Search() states.Found {
	if q.promise == stuck {
		return q.space().Search(func(*state) string { return "" }, stuck)
	}
	return q.space().Search(func(s *state) string {
		if promises[q.promise](&q.system, s) != "" {
			return q.promise
		}
		return ""
	}, "")
}
