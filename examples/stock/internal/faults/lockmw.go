package faults

import (
	"github.com/lockmw/go/examples/internal/clock"
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// byLockmw returns the scripts of the ways with lockmw.
func byLockmw() []Script {
	lost := Facts{Sold: 1, Accepted: 1, ToldOfLoss: 1}
	return []Script{
		{
			Way: "lockmw-item", Name: "the holder's process dies", Lease: short,
			Play: func(s *Stage) {
				s.kill(s.begin(here, "ann", stopAt(ways.Acquired)))
				s.click(there, "bob")
			},
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "lockmw-item", Name: "a nested call",
			Play: func(s *Stage) { s.click(here, "ann", nested) },
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "lockmw-item", Name: "work outlasts the lease", Lease: medium,
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Read))
				bob := s.bobWaits(there)
				s.outlastLease()
				s.goOn(ann)
				s.end(bob)
			},
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{Way: "lockmw-item", Name: "the holder's process is paused", Lease: short, Play: pausedHolder, Want: lost},
		{
			Way: "lockmw-item", Name: "a fail-over loses the lock of a write that is on its way",
			Play: locksLost,
			Want: Facts{Sold: 2, Accepted: 1, Oversold: 1, ToldOfLoss: 1}, // after ann has written
		},
		{
			Way: "lockmw-fine", Name: "another process wants to buy between read and write",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Sent))
				bob := s.bobWaits(there)
				s.goOn(ann)
				s.end(bob)
			},
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{
			Way: "lockmw-fine", Name: "a double click", Stock: 2,
			Play: doubleClick,
			Want: Facts{Sold: 1, Accepted: 1},
		},
		{Way: "lockmw-token", Name: "a fail-over loses the lock of a write that is on its way", Play: locksLost, Want: lost},
		{
			Way: "lockmw-token", Name: "the same, and the older holder writes first",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Sent))
				s.loseLocks()
				bob := s.begin(there, "bob", stopAt(ways.Sent))
				s.goOn(ann, bob)
			},
			Want: Facts{Sold: 1, ToldOfLoss: 2}, // ann after her write, bob instead of his
		},
		{Way: "lockmw-failover", Name: "a fail-over loses the lock of a write that is on its way", Play: locksLost, Want: lost},
	}
}

// outlastLease waits for longer than a lease, to show that it was renewed.
func (s *Stage) outlastLease() {
	if s.err == nil {
		s.must(clock.Sleep(s.ctx, s.env.Lease*5/4))
	}
}
