package together

// A rule is a part of rule 23 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	allOrNone         rule = 1 << iota // if one key is not free, the script writes nothing
	nothingIsKept                      // a call that a trip was refused to has nothing when it begins to wait
	inKeyOrder                         // what a trip does not take is taken in the order of the keys
	anyDoneRefuses                     // one id that is over refuses the whole trip
	idsAreCompared                     // a repeated trip is answered with the token if the ids hold all keys
	refusalIsUndone                    // a trip that was refused is cancelled if there are copies
	silenceIsUndone                    // a trip without an answer is cancelled
	cutIsUndone                        // a trip that ended with an error is cancelled
	tokenIsNew                         // a trip takes the next token
	releaseIsRepeated                  // each key of a release that ended with an error is released again

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
