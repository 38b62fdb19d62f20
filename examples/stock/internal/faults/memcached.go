package faults

import (
	"strings"

	"github.com/lockmw/go/examples/stock/internal/ways"
)

// byMemcached returns the scripts of the way with Memcached.
func byMemcached() []Script {
	const way = "memcached"
	return []Script{
		{
			Way: way, Name: "a slow holder deletes the next one's lock", Stock: 2, Lease: short,
			Play: func(s *Stage) { deletesTheNextOnes(s, ways.Written) },
			Want: Facts{Sold: 3, Accepted: 3, Oversold: 1},
		},
		{
			Way: way, Name: "the lock is evicted",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Sent))
				if s.err == nil {
					key := s.env.Name + ":lock:" + s.item()
					s.must(s.memcached.Fill(s.ctx, key, strings.Repeat("x", 26)))
				}
				s.click(there, "bob")
				s.goOn(ann)
			},
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
		{
			Way: way, Name: "Memcached is restarted",
			Play: func(s *Stage) {
				ann := s.begin(here, "ann", stopAt(ways.Sent))
				if s.err == nil {
					s.must(s.memcached.Restart(s.ctx))
				}
				s.click(there, "bob")
				s.goOn(ann)
			},
			Want: Facts{Sold: 2, Accepted: 2, Oversold: 1},
		},
	}
}
