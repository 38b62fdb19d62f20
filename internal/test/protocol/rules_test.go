package protocol

import "slices"

// A rule is a part of the protocol that can be switched off, to see what breaks. The numbers are those of
// docs/protocol.md.
type rule uint64

const (
	idsAreNew      rule = 1 << iota // rule 1: each acquisition has a new id
	idsAreCompared                  // rule 1: release compares the id, not the owner
	renewalsTouch                   // rule 1: the renewal of a reader adds none

	doneIsRefused  // rule 2: acquire refuses an id that is marked as over
	undoMarks      // rule 2: the undo of an acquire marks its id
	requeueMarks   // rule 2: a ticket that takes the place of a lost one marks the lost one
	releaseMarks   // rule 2: release marks an id whose acquire was written more than once
	handOverMarks  // rule 2: so does a hand-over
	lossMarks      // rule 2: so does the cancel of a hold that was lost
	vainIsUndone   // rule 2: a release that found nothing is followed by a cancel, if there are copies
	busyIsUndone   // rule 2: a try that was busy is cancelled, if there are copies
	heldIsAnswered // rule 2: acquire changes nothing for an id that reads already
	takersLeave    // rule 2: a request that is admitted at once leaves no ticket in the queue

	endIsUndone // rule 3: a call that ends without an answer is cancelled
	cancelFrees // rule 3: cancel also ends a hold

	settles // rule 5: a poll grants a free lock

	stampIsCompared  // rule 6: a push counts if its number is above the stamp of the last "queued"
	windowIsChecked  // rule 6: a push counts if the accept window since that answer is open
	grantsExpire     // rule 6: a grant that is not accepted expires
	numberIsReserved // rule 6: readers are admitted with a number that is not used again

	polls           // rule 7: a waiter polls
	waitersBeat     // rule 7: a process that waits shows that it lives
	peeksAreStamped // rule 7: the stamp of a peek is that of its run
	queuersAreSeen  // rule 7: so does a new ticket, for as long as a beat
	deadAreReaped   // rule 7: a ticket of a process that was not seen for long is removed

	restIsAdmitted // rule 9: no writer comes in between if several runs admit the readers

	keptIsReleased  // rule 11: release ends a kept place
	keptIsUndone    // rule 11: so does the cancel that follows an unanswered release
	lossEndsPlace   // rule 11: so does the cancel of a hold that was lost
	placeIsCompared // rule 11: cancel keeps a place only if it is the kept one

	readersGoFirst  // rule 12: the end of a writer admits readers
	writersGoFirst  // rule 12: the end of a phase of readers admits a writer
	allAtOnce       // rule 12: all waiting readers are admitted together
	writersHoldBack // rule 12: a reader that comes while a writer waits is queued
	deadHoldNobody  // rule 12: a dead writer holds nobody back
	ownShareEnds    // rule 12: a reader ends its own hold only
	downgradeReads  // rule 12: from the request for a downgrade on, the hold excludes no readers
	downgradesAdmit // rule 12: a downgrade admits waiting readers
	downgradeIsOnce // rule 12: a repeated downgrade admits nobody

	lossIsReleased // rule 13: a hold that was lost is cancelled
	lapseIsLoss    // rule 13: a renewal that is answered after the deadline does not move it

	deadlineIsFirst // rule 17: a deadline is earlier than the expiry on the server
	lateIsUnused    // rule 17: a grant that is answered after its own deadline starts no hold
	lateIsPolled    // rule 17: it is polled for, and not given up with its place in the queue

	tokensRise    // rule 18: each grant takes the next token
	readersFollow // rule 18: readers have at least the token of the writer before them

	pushIsLast      // rule 19: a grant is published when it is written
	holdIsNeverAway // rule 19: a downgrade changes the hold in place

	runIsInOrder    // rule 25: a run ends before the first ticket that is not one of it
	runHasTokens    // rule 25: a grant reserves a token for each of its run
	readersEndRuns  // rule 25: there is no run while somebody waits to read
	latecomersEndIt // rule 25: a ticket in front of the tail, or of a reader, ends the run
	answeredAreNext // rule 25: a lease is passed to calls only whose acquire is answered
	passMarks       // rule 25: a pass marks the id of the next one as over if there are copies
	lapsedIsKept    // rule 25: a lease whose deadline has passed is passed to nobody
	grantIsLoss     // rule 25: a grant of an id of the run proves that the lease is lost
	releaseEndsRun  // rule 25: release takes off the tickets of those who were served
	servedGoFirst   // rule 25: it does so before it grants
	vainEndsRun     // rule 25: so does the cancel that follows a release in vain
	undoEndsRun     // rule 25: so does the cancel that follows a release without an answer
	lossEndsRun     // rule 25: so does the cancel of a lease that was lost

	pushIsProven // rule 27: a push counts only if it proves that a script wrote it
	proofIsWhole // rule 27: the proof is for all that it says

	allRules = 1<<iota - 1
)

// A system is a few processes that keep to the rules of the protocol, except those that are off.
type system struct {
	off      rule
	roles    [maxProcesses]role
	acquires int  // by each process
	polls    int  // of a process on their way at once, at most 2
	peeks    bool // instead of some polls
	tries    bool // some acquires do not wait
	batch    int  // how many readers one run admits; 0: all
	faults   faults

	oneRuns bool // all that may run in one run are of one process, though their ids are of several

	cutting bool    // cuts are noted
	cuts    []state // after each write of a script
}

// wrote notes that a script has written something: it may end here.
func (y *system) wrote(s *state) {
	if y.cutting {
		y.cuts = append(y.cuts, *s)
	}
}

func (y *system) keeps(r rule) bool { return y.off&r == 0 }

// areOfOne reports whether ids are of one process.
func (y *system) areOfOne(a, b ident) bool {
	return a.process() == b.process() && (!y.oneRuns || (a.number() == toRun) == (b.number() == toRun)) ||
		y.oneRuns && a.number() == toRun && b.number() == toRun
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
