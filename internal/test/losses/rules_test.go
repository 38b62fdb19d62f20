package losses

// A rule is a part of rule 13 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	releasesRepeat  rule = 1 << iota // what was released is ended again
	cancelsRepeat                    // and so is what was cancelled
	usedStay                         // ids in use stay
	laterStay                        // and so do ids that were made after the numbers were read
	numbersFirst                     // which ids are in use is read after the numbers
	eachTime                         // each recovery repeats all, also what one before has repeated
	latePlansAgain                   // an end that was confirmed after a recovery, and sent before, leads to another one
	namedIsDisowned                  // a hold of its own that an answer names, and that has ended here, is ended there

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
