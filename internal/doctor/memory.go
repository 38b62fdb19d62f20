package doctor

import (
	"context"
	"fmt"
)

// nearlyFull is the part of maxmemory from which on the server counts as nearly full.
const nearlyFull = 0.9

func (e *examination) checkMemory(context.Context) {
	const remedy = "give it more memory: a full server refuses new locks, see " + pages + "#memory"
	e.each(e.servers, func(s *server) {
		used, most := s.number("used_memory"), s.number("maxmemory")
		switch share := float64(used) / float64(max(most, 1)); {
		case s.info["maxmemory"] == "":
			e.noteOf(s, Unknown, "", "INFO lacks maxmemory")
		case most == 0:
			e.noteOf(s, OK, "", "no limit (maxmemory 0)")
		case share >= 1:
			e.noteOf(s, Failure, remedy, "full: %s of %s", bytes(used), bytes(most))
		case share >= nearlyFull:
			e.noteOf(s, Warning, remedy, "nearly full: %s of %s", bytes(used), bytes(most))
		default:
			e.noteOf(s, OK, "", "%.0f %% of %s used", share*100, bytes(most))
		}
	})
}

func bytes(n int64) string {
	const step = 1024
	for _, unit := range []string{"bytes", "KiB", "MiB"} {
		if n < 10*step {
			return fmt.Sprintf("%d %s", n, unit)
		}
		n /= step
	}
	return fmt.Sprintf("%d GiB", n)
}

func (e *examination) checkEviction(context.Context) {
	const remedy = "CONFIG SET maxmemory-policy noeviction, or move locks to a Redis without a cache"
	e.each(e.servers, func(s *server) {
		switch policy, limited := s.info["maxmemory_policy"], s.number("maxmemory") > 0; {
		case policy == "":
			e.noteOf(s, Unknown, remedy, "INFO lacks maxmemory-policy")
		case policy == "noeviction":
			e.noteOf(s, OK, "", "maxmemory-policy noeviction")
		case limited:
			e.noteOf(s, Failure, remedy, "maxmemory-policy %s: a full server evicts locks that are held, and idempotency records: a request whose record is lost runs again", policy)
		default:
			e.noteOf(s, Warning, remedy, "maxmemory-policy %s: if maxmemory is ever set (now 0), a full server will evict locks and idempotency records", policy)
		}
	})
}
