package doctor

import (
	"context"
	"time"
)

// Clocks of servers may differ by so much: see docs/operations.md, Clocks of servers.
const clocksDiffer = time.Second

// checkClocks compares the clocks of all servers with this machine's, and so with one another.
func (e *examination) checkClocks(ctx context.Context) {
	const check = "clocks"
	type reading struct{ ahead, within time.Duration }
	var least, most, widest reading
	n := 0
	for _, s := range e.servers {
		ahead, within, err := readClock(ctx, s)
		if err != nil {
			e.noteOf(s, check, Unknown, Remedy(err), "TIME: %v", err)
			continue
		}
		r := reading{ahead, within}
		if n == 0 || ahead < least.ahead {
			least = r
		}
		if n == 0 || ahead > most.ahead {
			most = r
		}
		if n == 0 || within > widest.within {
			widest = r
		}
		n++
	}
	const ntp = "let NTP set them, slowly: a clock that is stepped ends leases early, or late"
	switch differ := most.ahead - least.ahead; {
	case n == 0:
	case n > 1 && differ-2*widest.within > clocksDiffer:
		e.note(check, Failure, ntp, "the servers' clocks differ by %v: after a fail-over leases end early, or late", differ.Round(time.Millisecond))
	case most.ahead-most.within > clocksDiffer || -least.ahead-least.within > clocksDiffer:
		off, side := most.ahead, "ahead of"
		if -least.ahead > off {
			off, side = -least.ahead, "behind"
		}
		e.note(check, Advice, "let NTP set this machine's clock, or the servers'; lockmw.Once refuses a tick that is too far off",
			"the servers' clocks are %v %s this machine's", off.Round(time.Millisecond), side)
	default:
		e.note(check, OK, "", "%d of %d agree with this machine's to %v", n, len(e.servers)+e.absent, max(most.ahead.Abs(), least.ahead.Abs(), widest.within).Round(time.Millisecond))
	}
}

// readClock returns by how much a server's clock is ahead of this machine's, and how exact that is.
func readClock(ctx context.Context, s *server) (ahead, within time.Duration, err error) {
	for range 3 { // the fastest answer is the most exact
		begun := time.Now()
		at, err := s.client.Time(ctx).Result()
		if err != nil {
			return 0, 0, err
		}
		if half := time.Since(begun) / 2; within == 0 || half < within {
			ahead, within = at.Sub(begun.Add(half)), half
		}
	}
	return ahead, within, nil
}
