// Package rw contains the scenarios of RWLockers, with both sides together, and the model that all locks are compared with.
package rw

import (
	"slices"

	"github.com/lockmw/go/internal/test/locktest/env"
)

// Groups are the scenarios, by subject.
var Groups = []env.Group{
	{Name: "read-write", Scenarios: slices.Concat(
		phases, upgrades, downgrades, readerLeases, killedReaders, mixedKinds, readWriteTries, readersLeaving,
		sharing, inspected, lostReplies, faults, replays,
	)},
	{Name: "model", Scenarios: modelled},
}
