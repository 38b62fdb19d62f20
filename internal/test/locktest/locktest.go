// Package locktest is the conformance suite of the locks: the scenarios that every Locker passes,
// with the faults really injected.
//
//	func TestLocal(t *testing.T) { locktest.Run(t, env.Local()) }
//
// Where Run is given a real server some scenarios start child processes, which are copies of the test
// binary, and TestMain has to call Main.
//
// On an embedded server each scenario runs in a testing/synctest bubble with a server of its own, where
// minutes pass at once and times are exact. On a real server the same scenarios run in real time, side
// by side. A scenario says whether it shares that server with others or must have one alone, and whether
// it stands for its group in the quick suite (package suite).
package locktest

import (
	"slices"
	"testing"

	"github.com/lockmw/go/internal/test/locktest/env"
	"github.com/lockmw/go/internal/test/locktest/fair"
	"github.com/lockmw/go/internal/test/locktest/fault"
	"github.com/lockmw/go/internal/test/locktest/permit"
	"github.com/lockmw/go/internal/test/locktest/plain"
	"github.com/lockmw/go/internal/test/locktest/rw"
)

// Run runs the scenarios that c's Locker can be put through. The test must not be parallel to others.
func Run(t *testing.T, c env.Config) {
	env.Run(t, c, slices.Concat(plain.Groups, fault.Groups, fair.Groups, rw.Groups, permit.Groups))
}
