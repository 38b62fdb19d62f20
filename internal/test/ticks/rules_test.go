package ticks

// A rule is a part of rule 20 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	oneLock         rule = 1 << iota // a job has one lock, not one for each tick
	busyIsWaitedFor                  // a replica that finds the lock busy waits until the tick is D ago
	marksAreRead                     // begin looks for the mark
	clockIsChecked                   // begin compares the tick with the server's clock
	holdIsCompared                   // begin counts only for the hold that has the lock
	copiesAreKnown                   // begin counts once for each hold
	begunIsCounted                   // a tick that was begun twice is not begun again
	lateIsUnused                     // an answer to begin after the loss of the lock starts no run
	notesLast                        // notes last for 2 D and a lease
	markIsFirst                      // the mark is written before the release
	markIsRepeated                   // the mark is written again until it is confirmed
	failureIsMarked                  // a failed run is also marked
	lossIsNotMarked                  // a run that lost its lock is not marked
	unmarkedKeeps                    // without the mark the lock stays taken until the tick is D ago
	quarantineLasts                  // a server that may have lost marks grants nothing for more than 2 D

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
