// Package locktest is the conformance suite of the locks: scenarios that every Locker must pass, with real faults.
//
//	func TestLocal(t *testing.T) { locktest.Run(t, env.Local()) }
//
// On a real server, some scenarios start child processes. These are copies of the test binary, so TestMain must call Main.
//
// On an embedded server, each scenario runs in a testing/synctest bubble with its own server: minutes pass instantly and
// times are exact. On a real server, the same scenarios run in real time and in parallel. Each scenario declares whether it
// can share that server or needs its own, and whether it represents its group in the quick suite (package suite).
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

// Run runs every scenario that applies to c's Locker. The calling test must not be parallel before: Run makes it so where it can.
func Run(t *testing.T, c env.Config) {
	env.Run(t, c, slices.Concat(plain.Groups, fault.Groups, fair.Groups, rw.Groups, permit.Groups))
}
