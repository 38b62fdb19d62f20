package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// clocksDiffer is the difference that clocks of servers may have: see docs/operations.md, Clocks of servers.
const clocksDiffer = time.Second

// checkClocks compares the clocks of all servers with this machine's clock, and with one another.
func (e *examination) checkClocks(ctx context.Context) {
	type reading struct{ ahead, within time.Duration }
	var all []reading
	for _, s := range e.servers {
		ahead, within, err := ReadClock(ctx, s.client)
		if err != nil {
			e.noteOf(s, Unknown, Remedy(err), "TIME: %v", err)
			continue
		}
		all = append(all, reading{ahead, within})
	}
	if len(all) == 0 {
		return
	}
	byAhead := func(a, b reading) int { return cmp.Compare(a.ahead, b.ahead) }
	least, most := slices.MinFunc(all, byAhead), slices.MaxFunc(all, byAhead)
	widest := slices.MaxFunc(all, func(a, b reading) int { return cmp.Compare(a.within, b.within) })
	const ntp = "let NTP adjust them gradually: a step of a clock ends leases early or late"
	switch differ := most.ahead - least.ahead; {
	case differ-2*widest.within > clocksDiffer:
		e.note(Failure, ntp, "the servers' clocks differ by %v: after a fail-over leases end early or late", differ.Round(time.Millisecond))
	case most.ahead-most.within > clocksDiffer || -least.ahead-least.within > clocksDiffer:
		off, side := most.ahead, "ahead of"
		if -least.ahead > off {
			off, side = -least.ahead, "behind"
		}
		e.note(Advice, "let NTP set this machine's clock or the servers'; lockmw.Once refuses ticks if the difference is too large",
			"the servers' clocks are %v %s this machine's", off.Round(time.Millisecond), side)
	default:
		e.note(OK, "", "%d of %d agree with this machine's clock to %v", len(all), len(e.servers)+e.absent, max(most.ahead.Abs(), least.ahead.Abs(), widest.within).Round(time.Millisecond))
	}
}

// ReadClock returns the offset of a server's clock, ahead of this machine's, and the error bound of that value.
func ReadClock(ctx context.Context, client redis.Cmdable) (ahead, within time.Duration, err error) {
	for range 3 { // the fastest answer is the most exact
		begun := time.Now()
		at, err := client.Time(ctx).Result()
		if err != nil {
			return 0, 0, err
		}
		if half := time.Since(begun) / 2; within == 0 || half < within {
			ahead, within = at.Sub(begun.Add(half)), half
		}
	}
	return ahead, within, nil
}
