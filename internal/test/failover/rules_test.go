package failover

// A rule is a part of rule 21 or 22 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	grantsWait     rule = 1 << iota // a grant counts only once the replica has it
	renewalsWait                    // a renewal counts only once the replica has it
	pushesDoNot                     // no process begins on a message alone
	notesWait                       // a note of a tick counts only once the replica has it
	movesEnd                        // a hold whose slot has moved ends soon unless it is acknowledged again
	runsWrite                       // an execution that is relied on has written
	sameConnection                  // WAIT asks about the writes of its own connection

	runsCompare      // the granting execution compares the id, not an earlier one
	releasesAreGated // a release hands the lock over only at a trusted server
	pollsAreGated    // a poll grants only at a trusted server
	lossesAreWaited  // a server is trusted once it has been known for a quarantine
	quarantineIsLong // a quarantine is longer than a lease

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
