package faults

import (
	"time"

	"github.com/lockmw/go/examples/stock/internal/ways"
)

// byKey returns the scripts of the ways with idempotency keys. All ways have the same faults.
func byKey() []Script {
	kept := Facts{Sold: 1, Accepted: 1}
	again := Facts{Sold: 2, Accepted: 2, Duplicates: 1, Contradicting: 1}
	both := Facts{Sold: 2, Accepted: 1, Duplicates: 1, ToldOfLoss: 1}
	var all []Script
	for _, f := range []struct {
		name  string
		lease time.Duration
		play  func(*Stage)
		want  map[string]Facts
	}{
		{"the process dies before it sends the recorded answer", 0, diesAt(ways.Recorded), map[string]Facts{
			"key-again": kept, "key-refuse": kept, "key-recover": kept, "key-sqlstore": kept,
		}},
		{"the process dies before it stores the order", short, diesAt(ways.Acquired), map[string]Facts{
			"key-again":    kept,
			"key-refuse":   {Unknown: 1, Lost: 1},
			"key-recover":  kept,
			"key-sqlstore": kept,
		}},
		{"the process dies between the order and the record of its answer", short, diesAt(ways.Written), map[string]Facts{
			"key-again":    {Sold: 2, Accepted: 1, Duplicates: 1},
			"key-refuse":   {Sold: 1, Unknown: 1},
			"key-recover":  kept,
			"key-sqlstore": {Sold: 1, NotKept: 1},
		}},
		{"the process is paused while its write is on its way", short, pausedWriter, map[string]Facts{
			"key-again":    both,
			"key-refuse":   {Sold: 1, Accepted: 1, Unknown: 1},
			"key-recover":  both, // it asks before the write arrives
			"key-sqlstore": {Sold: 1, Accepted: 1, ToldOfLoss: 1},
		}},
		{"a fail-over loses the record", 0, recordLost, map[string]Facts{
			"key-again": again, "key-refuse": again, "key-recover": again,
			"key-sqlstore": {Sold: 1, Accepted: 2},
		}},
	} {
		for way, want := range f.want {
			all = append(all, Script{Way: way, Name: f.name, Stock: 2, Lease: f.lease, Want: want, Play: func(s *Stage) {
				f.play(s)
				s.noteLost()
			}})
		}
	}
	return all
}

// diesAt kills the process at a point of ann's click, which gets no answer. Ann clicks again.
func diesAt(p ways.Point) func(*Stage) {
	return func(s *Stage) {
		s.kill(s.begin(here, "ann", stopAt(p)))
		s.click(there, "ann")
	}
}

// pausedWriter pauses the process of ann's first click until her second click is answered.
func pausedWriter(s *Stage) {
	first := s.begin(here, "ann", stopAt(ways.Sent))
	s.pause(here)
	s.click(there, "ann")
	s.resume(here)
	s.goOn(first)
}

// recordLost deletes all that Redis knows of ann's order before she clicks again.
func recordLost(s *Stage) {
	s.click(here, "ann")
	s.loseLocks()
	s.click(there, "ann")
}

// noteLost counts ann's order as lost if it is not in the books, or not with the receipt that she has got.
func (s *Stage) noteLost() {
	if s.err != nil {
		return
	}
	order := s.calls[0]
	stored, err := s.env.Books.Ordered(s.ctx, s.item(), order.user)
	s.must(err)
	if given := s.receipts.First(order.key); given != "" && err == nil {
		stored, err = s.env.Books.HasReceipt(s.ctx, s.item(), given)
		s.must(err)
	}
	if !stored {
		s.facts.Lost++
	}
}
