package protocol

import "slices"

// A rule is a part of the protocol that can be switched off, to see what breaks. The numbers are those
// of the protocol in the design.
type rule uint64

const (
	idsAreNew        rule = 1 << iota // 1: each acquisition has an id of its own
	idsAreCompared                    // 1: release compares the id, not the owner
	doneIsRefused                     // 2: acquire refuses an id that is marked as over
	undoMarks                         // 2: the undo of an acquire marks its id
	requeueMarks                      // 2: a ticket that takes the place of a lost one marks that
	releaseMarks                      // 2: release marks an id whose acquire was written more than once,
	handOverMarks                     //    and so does handing it over,
	lossMarks                         //    and cancelling what was lost or came too late,
	vainIsUndone                      //    and what follows a release that found nothing
	busyIsUndone                      // 2: a try that was busy is cancelled if it was written more than once
	endIsUndone                       // 3: what ends without an answer is cancelled
	lateIsUndone                      // 3: so is a grant that is answered after its own deadline
	cancelFrees                       // 3: cancel ends also a hold
	settles                           // 5: a poll grants a free lock
	tokensRise                        // 6: each grant takes the next token
	stampIsCompared                   // 6: a push counts if its token is above the last "queued" one's
	windowIsChecked                   // 6: and if the accept window is open since then
	grantsExpire                      // 6: a grant that is not accepted expires
	polls                             // 7: who waits polls
	deadAreReaped                     // 7: a ticket that was not seen for three polls is dropped
	lossIsReleased                    // 13: a hold that was lost is cancelled
	lapseIsLoss                       // 13: a renewal that is answered after the deadline does not move it
	deadlineIsFirst                   // a deadline is earlier than the server's expiry
	heldIsAnswered                    // 2: acquire does nothing for an id that reads already
	takersLeave                       // 2: and who gets to read at once leaves the queue
	renewalsTouch                     // 1: the renewal of a reader adds none
	numberIsReserved                  // 6: readers are let in with a number that is not used again
	readersFollow                     // 6: they have at least the token of the writer before
	readersGoFirst                    // 12: after a writer readers are let in,
	writersGoFirst                    //     and after readers a writer
	allAtOnce                         // 12: all that wait to read are let in together,
	restIsAdmitted                    // 9: if by several runs, with no writer in between
	writersHoldBack                   // 12: who comes to read while somebody waits to write queues,
	deadHoldNobody                    //     if that one is alive
	ownShareEnds                      // 12: a reader ends its own hold only
	downgradeReads                    // 12: who asks for a downgrade excludes readers no longer
	downgradesAdmit                   // 12: a downgrade lets in those who wait to read,
	downgradeIsOnce                   //     but no others if it is repeated
	keptIsReleased                    // 11: release forgets a kept place,
	keptIsUndone                      //     and so does the cancel that follows an unanswered release
	placeIsCompared                   //     cancel keeps a place only if it is the kept one
	allRules         = 1<<iota - 1
)

// A system is some processes that follow the protocol, but for the rules that are off.
type system struct {
	off      rule
	roles    [maxProcesses]role
	acquires int  // by each process
	polls    int  // of a process on their way at once, at most 2
	tries    bool // some acquires do not wait
	batch    int  // how many readers one run lets in; 0: all
	faults   faults
}

func (y *system) keeps(r rule) bool { return y.off&r == 0 }

// processes is how many there are.
func (y *system) processes() (n int) {
	for n < maxProcesses && y.roles[n] != 0 {
		n++
	}
	return n
}

// someRead says whether some of the processes may.
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
