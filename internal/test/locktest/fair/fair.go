// Package fair has the scenarios of a Locker that is first come, first served.
package fair

import (
	"slices"

	"github.com/lockmw/go/internal/test/locktest/env"
)

// Groups are the scenarios, by what they are about.
var Groups = []env.Group{
	{Name: "first come, first served", Scenarios: slices.Concat(
		orders, kinds, cost, leaving, clocks, driven, positions,
		fairTickets, shownTickets, fairTicketEnds, ticketLeaving, ticketLate, ticketInput, modelled,
	)},
}
