package losses

// A rule is a part of rule 13 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	releasesRepeat  rule = 1 << iota // released ids are ended again
	cancelsRepeat                    // cancelled ids are ended again
	usedStay                         // ids in use stay
	laterStay                        // ids made after the numbers were read stay
	numbersFirst                     // the ids in use are read after the numbers
	eachTime                         // each recovery repeats everything, also what an earlier one has repeated
	latePlansAgain                   // an end that was sent before a recovery and confirmed after it leads to another recovery
	namedIsDisowned                  // an ended hold of this process that an answer names is ended again

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
