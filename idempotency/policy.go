package idempotency

import (
	"context"
	"time"
)

// A Policy decides what happens if an earlier run of a key left no outcome. The zero Policy is not valid, because no policy is
// safe for all work.
type Policy struct {
	again   bool
	refuse  bool
	recover func(ctx context.Context, u Unfinished) (Answer, error)
}

var (
	// RunAgain runs the work again. It is for work that is rolled back if it does not finish, that may be done twice, or that looks
	// at Attempt. After three runs that never returned, it refuses like Refuse: the request may kill its process.
	RunAgain = Policy{again: true}
	// Refuse runs nothing and returns ErrUnknownOutcome until an operator decides: see Runner.Resolve. It is for payments and other
	// work that must not be done twice.
	Refuse = Policy{refuse: true}
)

// maxSilent is how many runs may never return before RunAgain refuses.
const maxSilent = 3

// Recover calls f, under the lock of the key, to find out what the earlier runs have done, for example by asking a payment
// provider. f returns the answer that they should have given, which is recorded and returned; or ErrNotDone, after which the
// work runs; or another error, which the call returns. Then the next repetition calls f again.
func Recover(f func(ctx context.Context, u Unfinished) (Answer, error)) Policy {
	return Policy{recover: f}
}

func (p Policy) isValid() bool { return p.again || p.refuse || p.recover != nil }

// Unfinished describes the earlier runs of a key that left no outcome, or the run whose answer is missing.
type Unfinished struct {
	Key      Key
	Run      string    // the last of them: see Runner.Resolve
	Token    int64     // the fencing token of the last of them
	Attempts int       // how many there were
	Began    time.Time // when the last of them began
	// Committed reports that the last of them has committed its transaction with sqlstore.Commit: the work is done, but its answer
	// was not recorded.
	Committed bool
}
