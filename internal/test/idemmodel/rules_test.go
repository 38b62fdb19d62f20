package idemmodel

// A rule is a part of rule 28 of docs/protocol.md, or of what it relies on, that can be switched off, to see what breaks.
type rule uint32

const (
	opens             rule = 1 << iota // a begin writes the record
	holderBegins                       // only the id that holds the lock begins after a wait
	openIsCompared                     // the fingerprint is compared in an open record
	doneIsCompared                     // and in one with an answer
	decidedFirst                       // a record that decides is read before a lock is taken
	doneIsFinal                        // a record with an answer is not opened again
	ownIsKnown                         // a copy of a begin finds its own run
	tokensCompared                     // a begin whose token is not above that of the record is refused
	lateIsUnused                       // an answer that comes after the deadline starts no run
	cancelIsVoid                       // the cancel of an id makes its run void
	releaseIsVoid                      // and so does the release of a hold whose begin was not answered
	voidKnowsID                        // only under that id
	voidIsOnce                         // a repeated void changes nothing
	voidKeepsOther                     // the outcome of a run that was replaced stays unknown
	begunIsNotVoid                     // a run that has begun to work does not become void, but one that a late copy has begun
	formerEnds                         // a call that asks again ends its former id in the same execution
	doneMarks                          // an acquire that its cancel has overtaken is refused
	cancelledStays                     // an id whose cancel is on its way is not ended without its run
	policyIsAsked                      // a run without an outcome is replaced only by a policy that runs the work again
	endKnowsRun                        // a run ends only its own record
	endNeedsNoLock                     // whether or not it still has the lock
	endIsRepeatable                    // a repeated end says the same
	endComparesAnswer                  // unless the record has another answer
	recordFirst                        // the lock is released when the answer is recorded, not before
	recordedIsSent                     // only an answer that was recorded is sent
	forgetKeepsToken                   // a record without a run keeps the token of the last one
	forgetKeepsCount                   // and the number of earlier runs
	replacedIsCounted                  // a replaced run counts
	silentIsCounted                    // as one that never returned, unless it says so
	outlivesRun                        // a record lasts longer than a hold
	refusedIsShort                     // a refused call does not prolong it

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
