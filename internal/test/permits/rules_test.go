package permits

// A rule is a part of rule 26 of docs/protocol.md, or what it takes over from others, that can be switched off, to see what
// breaks.
type rule uint32

const (
	ownCapacity     rule = 1 << iota // a grant asks for the granted one's own n, not for that of whoever runs the script
	lapsedIsOver                     // a permit whose time is over is not renewed
	lapsedIsReaped                   // and counts no longer
	oneWrite                         // a permit is written together with what counts it
	pushIsLast                       // a grant is published when it is written
	strictOrder                      // nobody overtakes a ticket
	headFirst                        // not even one that does not fit
	releaseGrants                    // a release grants what it has freed to those who wait
	ttlIsLatest                      // the hash lives until the latest of its permits has ended
	ttlCoversQueue                   // and while anybody waits
	kindsAreTold                     // permits are not granted beside a lock
	doneIsRefused                    // an id that is over is refused
	endIsUndone                      // a call that ends cancels its id
	stampIsCompared                  // a push counts only if its token is above the stamp
	windowIsChecked                  // and within the accept window
	deadlineFirst                    // a deadline counts from when the command was sent
	tokensRise                       // each grant takes the next token
	slotsAreMapped                   // a grant takes slots that nobody has

	allRules = 1<<iota - 1
)

func (y *system) keeps(r rule) bool { return y.off&r == 0 }
