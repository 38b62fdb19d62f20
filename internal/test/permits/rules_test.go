package permits

// A rule is a part of rule 26 of docs/protocol.md, or of a rule that also applies to permits. It can be switched off, to see
// what breaks.
type rule uint32

const (
	ownCapacity      rule = 1 << iota // a grant goes by the granted permit's own n, not by that of the process that runs the script
	lapsedIsOver                      // an expired permit is not renewed
	lapsedIsReaped                    // an expired permit does not count
	oneWrite                          // a permit is written together with the counts
	pushIsLast                        // a grant is published after it is written
	strictOrder                       // no call overtakes a ticket
	headFirst                         // a head that does not fit is not overtaken
	releaseGrants                     // a release grants what it has freed to waiting calls
	ttlIsLatest                       // the hash lives until the latest of its permits has ended
	ttlCoversQueue                    // the hash lives while a call waits
	kindsAreCompared                  // permits are not granted while a lock is held
	doneIsRefused                     // an ended id is refused
	endIsUndone                       // a call that ends cancels its id
	stampIsCompared                   // a push counts only if its token is above the stamp
	windowIsChecked                   // a push counts only within the accept window
	deadlineFirst                     // a deadline counts from when the command was sent
	tokensRise                        // each grant takes the next token
	slotsAreMapped                    // a grant takes free slots

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
