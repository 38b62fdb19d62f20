package faults

import (
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// unguarded returns the scripts of the ways without a shared lock. The faults happen between read and write.
func unguarded() []Script {
	return []Script{
		{
			Way: "none", Name: "another process buys between read and write",
			Play: boughtMeanwhile,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "none", Name: "a double click between read and write", Stock: 2,
			Play: doubleClick,
			Want: Facts{Sold: 2, Accepted: 2, Duplicates: 1},
		},
		{
			Way: "mutex-one", Name: "another call in this process buys between read and write",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Read))
				bob := s.bobWaits(here)
				s.goOn(ann)
				s.end(bob)
			},
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "mutex", Name: "another process buys between read and write",
			Play: boughtMeanwhile,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
	}
}

// boughtMeanwhile lets ann read, bob buy the last item, and ann write.
func boughtMeanwhile(s *Stage) {
	ann := s.begin(here, "ann", stopAt(ways.Read))
	s.click(there, "bob")
	s.goOn(ann)
}

// doubleClick lets ann read, buy with a second click, and then write.
func doubleClick(s *Stage) {
	first := s.begin(here, "ann", stopAt(ways.Read))
	s.click(there, "ann")
	s.goOn(first)
}
