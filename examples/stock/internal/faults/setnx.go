package faults

import (
	"github.com/lockmw/go/examples/stock/internal/ways"
)

// bySetNX returns the scripts of hand-written Redis locks.
func bySetNX() []Script {
	return []Script{
		{
			Way: "setnx", Name: "the holder's process dies",
			Play: func(s *Stage) {
				s.kill(s.begin(here, "ann", stopAt(ways.Acquired)))
				s.click(there, "bob", hastily)
				s.stillTaken()
			},
			Want: Facts{Blocked: 1},
		},
		{
			Way: "setnx-expiry", Name: "a slow holder deletes the next one's lock", Stock: 2, Lease: short,
			Play: func(s *Stage) { deletesTheNextOnes(s, ways.Written) },
			Want: Facts{Sold: 3, Accepted: 3, Oversold: 1},
		},
		{
			Way: "setnx-value", Name: "the same, between check and delete", Stock: 2, Lease: medium,
			Play: func(s *Stage) { deletesTheNextOnes(s, ways.Checked) },
			Want: Facts{Sold: 3, Accepted: 3, Oversold: 1},
		},
		{
			Way: "setnx-lua", Name: "a nested call waits for its own lock",
			Play: func(s *Stage) { s.click(here, "ann", nested, hastily) },
			Want: Facts{Blocked: 1},
		},
		{
			Way: "setnx-lua", Name: "work outlasts the expiry", Lease: short,
			Play: boughtMeanwhile,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "setnx-count", Name: "the reply to a try is lost",
			Play: func(s *Stage) {
				s.click(here, "ann", losesReply)
				s.click(there, "bob", hastily) // the key is taken although nobody holds the lock
			},
			Stock: 2, Want: Facts{Sold: 1, Accepted: 1, Blocked: 1},
		},
		{
			Way: "setnx-count", Name: "the holder's process is paused", Lease: short,
			Play: pausedHolder,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "setnx-count", Name: "a fail-over loses the lock",
			Play: locksLost,
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: "setnx-count", Name: "no queue: the last caller is served first", Stock: 2,
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Acquired))
				bob := s.begin(there, "bob", stopAt(ways.Busy)) // between two tries
				s.goOn(ann)
				s.click(here, "carl")
				s.goOn(bob)
				s.facts.Overtaken = 1 - s.facts.Blocked // bob found nothing left
			},
			Want: Facts{Sold: 2, Accepted: 2, Overtaken: 1},
		},
	}
}

// deletesTheNextOnes stops ann after she has stored her order and before she deletes the lock. The lock expires, and bob
// gets it. Then ann deletes bob's lock, and carl gets the lock as well.
func deletesTheNextOnes(s *Stage, before ways.Point) {
	ann := s.begin(here, "ann", stopAt(before))
	bob := s.begin(there, "bob", stopAt(ways.Read))
	s.goOn(ann)
	s.click(here, "carl")
	s.goOn(bob)
}

// pausedHolder pauses ann's process while she holds the lock, until bob has bought.
func pausedHolder(s *Stage) {
	ann := s.begin(here, "ann", stopAt(ways.Read))
	s.pause(here)
	s.click(there, "bob")
	s.resume(here)
	s.goOn(ann)
}

// locksLost deletes ann's lock from Redis while her write is on its way, and lets bob buy.
func locksLost(s *Stage) {
	ann := s.begin(here, "ann", stopAt(ways.Sent))
	s.loseLocks()
	s.click(there, "bob")
	s.goOn(ann)
}

// stillTaken checks that the lock has no expiry, so that bob would wait in vain forever.
func (s *Stage) stillTaken() {
	if s.err != nil {
		return
	}
	keys, err := s.env.Redis.Keys(s.ctx, s.env.Name+":lock:*").Result()
	s.must(err)
	for _, key := range keys {
		ttl, err := s.env.Redis.TTL(s.ctx, key).Result()
		s.must(err)
		if ttl != -1 {
			s.fail("the lock ends in %v", ttl)
		}
	}
	if len(keys) != 1 {
		s.fail("there are %d locks, not one", len(keys))
	}
}
