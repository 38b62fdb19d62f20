package together

// A rule is a part of rule 23 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	allOrNone         rule = 1 << iota // if one key is not free, the script writes nothing
	nothingIsKept                      // a refused multi-acquire leaves nothing held when the call begins to wait
	inKeyOrder                         // after that, locks are taken in the order of the keys
	anyDoneRefuses                     // one ended id refuses the whole multi-acquire
	idsAreCompared                     // a repeated multi-acquire is answered with the token if the ids hold all keys
	refusalIsUndone                    // a refused multi-acquire is cancelled if there are copies
	silenceIsUndone                    // an unanswered multi-acquire is cancelled
	cutIsUndone                        // a multi-acquire that ended with an error is cancelled
	tokenIsNew                         // a multi-acquire takes the next token
	releaseIsRepeated                  // each key of a release that ended with an error is released again

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
