package faults

import (
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// inSQL returns the scripts of the ways that the database guards.
func inSQL() []Script {
	return []Script{
		{
			Way: "sql-condition", Name: "another process buys between check and write",
			Play: boughtMeanwhile,
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "sql-condition", Name: "a double click between check and write", Stock: 2,
			Play: doubleClick,
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "sql-for-update", Name: "another process wants to buy between read and write",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Read))
				bob := s.bobWaits(there)
				s.goOn(ann)
				s.end(bob)
			},
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "sql-early-unlock", Name: "the next holder reads before the commit",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Unlocked))
				bob := s.begin(there, "bob", stopAt(ways.Read))
				s.goOn(ann, bob)
			},
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "sql-version", Name: "bought and returned between read and write (ABA)", Stock: 2,
			Play: boughtAndReturned,
			Want: Facts{Sold: 1, Accepted: 2}, // carl's order was returned
		},
		{
			Way: "sql-value", Name: "bought and returned between read and write (ABA)", Stock: 2,
			Play: boughtAndReturned,
			Want: Facts{Sold: 2, Accepted: 3, Duplicates: 1},
		},
	}
}

// boughtAndReturned lets ann read, then buy with a second click, and carl return an item: the stock is the same as when ann read it.
func boughtAndReturned(s *Stage) {
	s.click(there, "carl")
	first := s.begin(here, "ann", stopAt(ways.Read))
	s.click(there, "ann")
	if s.err == nil {
		s.must(s.env.Books.Return(s.ctx, s.item(), "carl"))
	}
	s.goOn(first)
}
