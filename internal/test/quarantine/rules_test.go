package quarantine

// A rule is a part of rule 22 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	runsCompare      rule = 1 << iota // the run that grants compares the id, not one before it
	releasesAreGated                  // a release hands the lock over only at a server that is trusted
	pollsAreGated                     // and so does a poll grant it
	lossesAreWaited                   // a server is trusted when it was known for a quarantine
	quarantineIsLong                  // which is longer than a lease

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
