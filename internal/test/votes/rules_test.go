package votes

// A rule is a part of rule 24 of docs/protocol.md that can be switched off, to see what breaks.
type rule uint32

const (
	newIDs          rule = 1 << iota // each attempt has an id of its own, which is refused once it was cancelled
	majority                         // a hold counts at more than half of the nodes
	kthLatest                        // its deadline is the k-th latest, not the latest
	fromSending                      // a node's deadline counts from when it was asked
	kthToken                         // the token is the k-th smallest, so that k nodes give it or less
	raised                           // k nodes know the token
	checkedAfter                     // which still count then
	chosenAgain                      // and so do k that have given it or less: it rises if one that is late has given more
	forgottenWait                    // a node that forgets grants nothing for a lease
	forgottenRaised                  // and is raised before it grants again
	clockRaised                      // by its own clock, if too few others answer
	clockBound                       // no node is told of a token that is further ahead of its clock than that
	firstLast                        // the first node is released when the others are

	// Of votes for several locks that go to a node in one run:
	gated     // a node that forgot grants none of them, either
	freeOnes  // those are taken whose lock is free, and has no queue
	doneOnes  // and whose id is not over
	oneOfAKey // one for each lock
	countsAll // the counter is at the last token of all when the run ends

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
