package lockmw

import (
	"errors"
	"time"

	"github.com/lockmw/go/internal/core"
)

// A Deadlock is who waits for whom in a circle. DeadlockOf finds it in the error of a call that was ended for it.
type Deadlock struct {
	// Circle begins with the call that was ended. Each waits for a lock that the next one has, and the last one for a lock
	// that the first has.
	Circle []DeadlockStep
}

// A DeadlockStep is one call in a Deadlock.
type DeadlockStep struct {
	Process  string        // host, process id and a random part
	Owner    string        // identity of the logical execution, as in Holder
	Label    string        // of the call (WithLabel)
	Wants    string        // the key that it waits for
	Waited   time.Duration // for how long
	Has      string        // the key that the step before waits for
	HasLabel string        // of that hold
	Held     time.Duration // for how long
}

// DeadlockOf returns the deadlock that err, the error of a call for a lock, is of; false if it is of none.
func DeadlockOf(err error) (Deadlock, bool) {
	found, ok := errors.AsType[*core.DeadlockError](err)
	if !ok {
		return Deadlock{}, false
	}
	var d Deadlock
	for _, s := range found.Circle {
		d.Circle = append(d.Circle, DeadlockStep(s))
	}
	return d, true
}
