package votes

// A rule is a part of rule 24 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	newIDs          rule = 1 << iota // each bid has its own id, which is refused once it was cancelled
	majority                         // a hold counts if more than half of the nodes grant it
	kthLatest                        // its deadline is the k-th latest, not the latest
	fromSending                      // a node's deadline counts from when it was asked
	kthToken                         // the token is the k-th smallest, so that k nodes give it or less
	raised                           // k nodes know the token
	checkedAfter                     // and still count then
	chosenAgain                      // k nodes that count have given the token or less: it rises if a late node has given more
	forgottenWait                    // a node that lost its data grants nothing for a lease
	forgottenRaised                  // such a node is raised before it grants again
	intactOthers                     // to the counters of others that have lost no tokens
	clockRaised                      // it is raised by its own clock if too few others answer
	clockBound                       // no node is raised to a token further ahead of its clock than that
	firstLast                        // the first node is released last

	// Votes for several locks that a node receives as a batch:
	gated     // a node that lost its data grants none of them
	freeOnes  // only locks that are free and have no queue are granted
	doneOnes  // ids with a done mark are refused
	oneOfAKey // each lock is granted once
	countsAll // after the execution the counter is at the last of all tokens

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
