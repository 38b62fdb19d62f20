// Package plain contains the scenarios without faults that every Locker passes.
package plain

import (
	"slices"

	"github.com/lockmw/go/internal/test/locktest/env"
)

// Groups are the scenarios, by subject.
var Groups = []env.Group{
	{Name: "exclusion", Scenarios: exclusion},
	{Name: "several keys", Scenarios: severalKeys},
	{Name: "reentry", Scenarios: reentry},
	{Name: "nested options", Scenarios: nestedOptions},
	{Name: "unlock", Scenarios: unlocking},
	{Name: "lease", Scenarios: leases},
	{Name: "shorter lease", Scenarios: shorterLeases},
	{Name: "cancel", Scenarios: cancelling},
	{Name: "ended context", Scenarios: endedContexts},
	{Name: "panic", Scenarios: panics},
	{Name: "guarded function", Scenarios: guarded},
	{Name: "close", Scenarios: closing},
	{Name: "waiters", Scenarios: slices.Concat(waiterLimit, waitersShown)},
	{Name: "fairness", Scenarios: fairness},
	{Name: "replay", Scenarios: replays},
	{Name: "input", Scenarios: badInput},
	{Name: "retry", Scenarios: retries},
	{Name: "label", Scenarios: labels},
	{Name: "strangers", Scenarios: strangers},
}
