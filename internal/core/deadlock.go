package core

import (
	"fmt"
	"strings"
	"time"
)

// A DeadlockError is the error of a wait that was ended to break a deadlock. It matches ErrDeadlock and ErrBusy.
type DeadlockError struct {
	Cycle []DeadlockStep
}

// A DeadlockStep is one call of the cycle. It waits for a lock that the next call holds. The last call waits for a lock that the
// first one holds.
type DeadlockStep struct {
	Process  string
	Owner    string
	Label    string        // of the call that waits
	Wants    string        // the key that it waits for
	Waited   time.Duration // how long it has waited
	Has      string        // the key that it holds, for which the call before it waits
	HasLabel string        // the label of that hold
	Held     time.Duration // how long it has held that key
}

func (d *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString(ErrDeadlock.Error())
	between := ": "
	for _, s := range d.Cycle {
		b.WriteString(between + s.String())
		between = "; "
	}
	return b.String()
}

// String describes the step in words.
func (s *DeadlockStep) String() string {
	who := s.Process
	if s.Label != "" {
		who += " (" + s.Label + ")"
	}
	return fmt.Sprintf("%s has held %q for %v and has waited for %q for %v",
		who, shortKey(s.Has), s.Held.Round(time.Millisecond), shortKey(s.Wants), s.Waited.Round(time.Millisecond))
}

func shortKey(key string) string {
	const most = 100
	if len(key) <= most {
		return key
	}
	return key[:most] + "…"
}

// Unwrap returns ErrDeadlock.
func (d *DeadlockError) Unwrap() error { return ErrDeadlock }
