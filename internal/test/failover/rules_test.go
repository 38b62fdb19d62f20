package failover

// A rule is a part of rule 21 or 22 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	grantsWait     rule = 1 << iota // a grant counts only when the replica has it
	renewalsWait                    // and so does a renewal
	pushesDoNot                     // a message of a grant is no reason to begin
	notesWait                       // and so does what is noted of a tick
	movesEnd                        // a hold whose slot has moved ends soon unless it is acknowledged again
	runsWrite                       // a run that is relied on has written
	sameConnection                  // WAIT asks for what its own connection has written

	runsCompare      // the run that grants compares the id, not one before it
	releasesAreGated // a release hands the lock over only at a server that is trusted
	pollsAreGated    // and so does a poll grant it
	lossesAreWaited  // a server is trusted when it was known for a quarantine
	quarantineIsLong // which is longer than a lease

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
