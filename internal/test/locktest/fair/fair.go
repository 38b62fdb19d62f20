// Package fair contains the scenarios of fair Lockers, which serve calls in order.
package fair

import (
	"slices"

	"github.com/lockmw/go/internal/test/locktest/env"
)

// Groups are the scenarios, by subject.
var Groups = []env.Group{
	{Name: "first come, first served", Scenarios: slices.Concat(
		orders, kinds, cost, leaving, clocks, driven, positions,
		fairTickets, shownTickets, fairTicketEnds, ticketLeaving, ticketLate, ticketInput, modelled,
	)},
}
