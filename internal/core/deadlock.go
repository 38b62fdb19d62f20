package core

import (
	"fmt"
	"strings"
	"time"
)

// A DeadlockError is the error of a wait that was ended because it was in one. It matches ErrDeadlock and ErrBusy.
type DeadlockError struct {
	Circle []DeadlockStep
}

// A DeadlockStep is one call of the circle. It waits for a lock that the next one has, and the last for one that the first
// has.
type DeadlockStep struct {
	Process  string
	Owner    string
	Label    string        // of the call that waits
	Wants    string        // the key that it waits for
	Waited   time.Duration // for how long
	Has      string        // the key that the step before it waits for
	HasLabel string        // of that hold
	Held     time.Duration // for how long
}

func (d *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString(ErrDeadlock.Error())
	between := ": "
	for _, s := range d.Circle {
		b.WriteString(between + s.String())
		between = "; "
	}
	return b.String()
}

// String says in words who waits for what.
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
