package states

import (
	"testing"

	"github.com/lockmw/go/internal/test/race"
	"github.com/lockmw/go/internal/test/suite"
)

// A Rule has a bit for each part of a rule of docs/protocol.md that can be switched off, to see what breaks.
type Rule interface{ ~uint32 | ~uint64 }

// A System is the start of a search.
type System interface {
	// Search visits the states of the system.
	Search() Found
}

// Unbroken searches the systems, and fails the test if one breaks a promise.
func Unbroken[Y System](t *testing.T, systems map[string]Y) {
	t.Helper()
	race.FindsNothing(t)
	for name, y := range systems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := y.Search()
			if found.Broken != "" {
				t.Fatalf("broken after %d states: %s:\n%s", found.States, found.Broken, found.Path)
			}
			t.Logf("%d states; there may be more: %v", found.States, found.Cut)
		})
	}
}

// A Need is a system that breaks a promise when a rule is off.
type Need[R Rule, Y System] struct {
	name   string
	off    R
	in     func(off R) Y
	broken string
}

// Without is the need for the rules off: the system that in returns breaks that promise without them.
func Without[R Rule, Y System, P ~string](name string, off R, in func(off R) Y, promise P) Need[R, Y] {
	return Need[R, Y]{name: name, off: off, in: in, broken: string(promise)}
}

// EachIsNeeded switches rules off, and fails the test if that does not break the promise, or if one of all rules is never off.
// The log shows the shortest path to each breach.
func EachIsNeeded[R Rule, Y System](t *testing.T, all R, needs []Need[R, Y]) {
	t.Helper()
	race.FindsNothing(t)
	for _, n := range needs {
		all &^= n.off
		t.Run(n.name, func(t *testing.T) {
			t.Parallel()
			found := n.in(n.off).Search()
			if found.Cut {
				suite.NeedsFull(t, "the path to the breach is long")
			}
			if found.Broken != n.broken {
				t.Fatalf("without it, %q breaks in %d states, want %q:\n%s", found.Broken, found.States, n.broken, found.Path)
			}
			t.Logf("without it, %s after %d states:\n%s", found.Broken, found.States, found.Path)
		})
	}
	if all != 0 {
		t.Errorf("no test switches off the rules %b", all)
	}
}
