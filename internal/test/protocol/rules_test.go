package protocol

import "slices"

// A rule is a part of the protocol that can be switched off, to see what breaks. The numbers refer to docs/protocol.md.
type rule uint64

const (
	idsAreNew      rule = 1 << iota // rule 1: each acquisition has a new id
	idsAreCompared                  // rule 1: release compares the id, not the owner
	renewalsTouch                   // rule 1: the renewal of a reader adds none

	doneIsRefused  // rule 2: acquire refuses an id with a done mark
	undoMarks      // rule 2: the undo of an acquire marks its id
	requeueMarks   // rule 2: a ticket that replaces a lost one marks the id of the lost one
	releaseMarks   // rule 2: release marks an id whose acquire was written more than once
	handOverMarks  // rule 2: a hand-over marks it also
	lossMarks      // rule 2: the cancel of a lost hold marks it also
	vainIsUndone   // rule 2: a release that found nothing is followed by a cancel, if there are copies
	busyIsUndone   // rule 2: a busy try is cancelled, if there are copies
	heldIsAnswered // rule 2: acquire changes nothing for an id that reads already
	takersLeave    // rule 2: a request that is admitted immediately leaves no ticket in the queue

	endIsUndone // rule 3: a call that ends without an answer is cancelled
	cancelFrees // rule 3: cancel also ends a hold

	pollsGrant // rule 5: a poll grants a free lock

	stampIsCompared  // rule 6: a push counts if its number is above the stamp of the last "queued"
	windowIsChecked  // rule 6: a push counts if the accept window since that answer is open
	grantsExpire     // rule 6: a grant that is not accepted expires
	numberIsReserved // rule 6: readers are admitted with a number that is not used again

	polls           // rule 7: a waiter polls
	waitersBeat     // rule 7: a waiting process beats
	peeksAreStamped // rule 7: a peek has the stamp of its own execution
	queuersAreSeen  // rule 7: a new ticket counts as a beat
	deadAreReaped   // rule 7: a dead ticket is removed

	restIsAdmitted // rule 9: no writer comes in between if several executions admit the readers

	keptIsReleased  // rule 11: release ends a kept place
	keptIsUndone    // rule 11: the cancel after an unanswered release ends it also
	lossEndsPlace   // rule 11: the cancel of a lost hold ends it also
	placeIsCompared // rule 11: cancel keeps only the place that was kept

	readersGoFirst  // rule 12: the end of a writer admits readers
	writersGoFirst  // rule 12: the end of a phase of readers admits a writer
	allAtOnce       // rule 12: all waiting readers are admitted together
	writersHoldBack // rule 12: a reader that comes while a writer waits is queued
	deadHoldNobody  // rule 12: a dead writer holds nobody back
	ownShareEnds    // rule 12: a reader ends only its own hold
	downgradeReads  // rule 12: once a downgrade is requested, the hold excludes no readers
	downgradesAdmit // rule 12: a downgrade admits waiting readers
	downgradeIsOnce // rule 12: a repeated downgrade admits nobody

	lossIsReleased // rule 13: a lost hold is cancelled
	lapseIsLoss    // rule 13: a late renewal does not revive a hold

	deadlineIsFirst // rule 17: a deadline is earlier than the expiry on the server
	lateIsUnused    // rule 17: a grant that is answered after its own deadline starts no hold
	lateIsPolled    // rule 17: it is polled for, so that its place is not given up

	tokensRise    // rule 18: each grant takes the next token
	readersFollow // rule 18: readers have at least the token of the write before them

	pushIsLast      // rule 19: a grant is published after it is written
	holdIsNeverAway // rule 19: a downgrade changes the hold in place

	batchIsInOrder    // rule 25: a batch ends before the first other ticket
	batchHasTokens    // rule 25: a grant reserves a token for each member of its batch
	readersEndBatches // rule 25: there is no batch while a reader waits
	latecomersEndIt   // rule 25: a reader's ticket, or one that is not at the tail, ends the batch
	answeredAreNext   // rule 25: a lease is passed only to calls whose acquire was answered
	passMarks         // rule 25: a pass marks the id of the next call if there are copies
	lapsedIsKept      // rule 25: a lease whose deadline has passed is not passed on
	grantIsLoss       // rule 25: a grant of an id of the batch proves that the lease is lost
	releaseEndsBatch  // rule 25: release removes the tickets of served calls
	servedGoFirst     // rule 25: it removes them before it grants
	vainEndsBatch     // rule 25: the cancel after a release that found nothing removes them
	undoEndsBatch     // rule 25: the cancel after an unanswered release removes them
	lossEndsBatch     // rule 25: the cancel of a lost lease removes them

	pushIsProven // rule 27: a push counts only if it proves that a script wrote it
	proofIsWhole // rule 27: the proof covers the whole message

	allRules = 1<<iota - 1
)

// A system is a few processes that keep all rules of the protocol except those that are off.
type system struct {
	off         rule
	roles       [maxProcesses]role
	acquires    int  // by each process
	polls       int  // of one process in flight, at most 2
	peeks       bool // some polls are peeks
	tries       bool // some acquires do not wait
	maxAdmitted int  // how many readers one execution admits; 0: all
	faults      faults

	oneBatcher bool // all ids for batches belong to one process, whatever their process number

	cutting bool    // cuts are collected
	cuts    []state // the state after each write of a script
}

// wrote records a write of a script, after which it may end.
func (y *system) wrote(s *state) {
	if y.cutting {
		y.cuts = append(y.cuts, *s)
	}
}

func (y *system) keeps(r rule) bool { return y.off&r == 0 }

// areOfOne reports whether ids belong to one process.
func (y *system) areOfOne(a, b ident) bool {
	return a.process() == b.process() && (!y.oneBatcher || (a.number() == toBatch) == (b.number() == toBatch)) ||
		y.oneBatcher && a.number() == toBatch && b.number() == toBatch
}

// processes returns the number of processes.
func (y *system) processes() (n int) {
	for n < maxProcesses && y.roles[n] != 0 {
		n++
	}
	return n
}

// someRead reports whether a process may read.
func (y *system) someRead() bool {
	return slices.ContainsFunc(y.roles[:], func(r role) bool { return r&(reads|downgrades) != 0 })
}

func (y *system) start() state {
	s := state{faults: y.faults}
	for i, r := range y.roles {
		if r != 0 {
			s.process[i] = process{role: r, left: uint8(y.acquires)}
		} else {
			s.process[i].phase = dead
		}
	}
	return s
}
