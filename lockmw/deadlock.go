package lockmw

import (
	"errors"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A Deadlock is a cycle of calls that waited for one another. DeadlockOf returns it from the error of the call that was ended
// to break the cycle.
type Deadlock struct {
	// Circle begins with the call that was ended. Each call waits for a lock that the next one holds, and the last call waits
	// for a lock that the first one holds.
	Circle []DeadlockStep
}

// A DeadlockStep is one call in a Deadlock.
type DeadlockStep struct {
	Process  string        // host, process id and a random part
	Owner    string        // random identity of the logical execution, as in Holder
	Label    string        // label of the call (WithLabel)
	Wants    string        // key that the call waits for
	Waited   time.Duration // how long it has waited
	Has      string        // key that its context holds and the previous step waits for
	HasLabel string        // label of that hold
	Held     time.Duration // how long it has held that key
}

// DeadlockOf returns the deadlock that ended a call for a lock. It returns false if err, the error of that call, does not come
// from a deadlock.
func DeadlockOf(err error) (Deadlock, bool) {
	found, ok := errors.AsType[*core.DeadlockError](err)
	if !ok {
		return Deadlock{}, false
	}
	var d Deadlock
	for _, s := range found.Cycle {
		d.Circle = append(d.Circle, DeadlockStep(s))
	}
	return d, true
}
