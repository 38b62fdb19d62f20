package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/script"
)

// recently is how long ago a counter was used if its processes probably still run.
const recently = 24 * time.Hour

// A counted layout is one of the two layouts, as its fencing counters show it. A counter is at least the time of its last lock (µs).
type counted struct {
	counter string    // one of the counters; "" if there is none
	used    time.Time // when a counter was used last
	what    string    // the layout, in words
}

// checkLayout checks that all processes lay out their keys in the same way: with one fencing counter for all locks, or with one for
// each slot (a Cluster, WithSlottedKeys).
func (e *examination) checkLayout(ctx context.Context) {
	layout := script.NewLayout(e.options.Prefix, e.topology)
	shared, ofSlots := layout.Counters()
	own, err := e.readCounters(ctx, "one fencing counter for all keys", []string{shared})
	other, errSlots := e.readCounters(ctx, "a fencing counter for each slot", ofSlots)
	if e.topology.HasSlots() {
		own, other = other, own
	}
	if err := errors.Join(err, errSlots); err != nil {
		e.note(Unknown, Remedy(err), "%v", err)
		return
	}
	remedy := "give all processes WithSlottedKeys, and this command --slotted-keys"
	if e.topology.HasSlots() {
		remedy = "give all processes WithSlottedKeys, or in a Cluster a Cluster client"
	}
	remedy += "; then delete the counters of the other layout"
	switch seen := other.used.Format(time.RFC3339); {
	case other.counter == "":
		e.note(OK, "", "all locks have %s", own.what)
	case time.Since(other.used) > recently:
		e.note(Advice, "delete the counters of the other layout", "%s is left of locks with %s, last used %s", other.counter, other.what, seen)
	case own.counter == "":
		e.note(Failure, remedy, "the locks here have %s, such as %s (last used %s), and your settings stand for %s", other.what, other.counter, seen, own.what)
	default:
		e.note(Failure, remedy, "two layouts are in use: %s has %s (last used %s), and %s (last used %s) has %s: waiting calls may lose their places, and tokens may fall",
			own.counter, own.what, own.used.Format(time.RFC3339), other.counter, seen, other.what)
	}
}

// readCounters reads the fencing counters of a layout.
func (e *examination) readCounters(ctx context.Context, what string, keys []string) (counted, error) {
	c := counted{what: what}
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	for some := range slices.Chunk(keys, 1024) {
		cmds, err := e.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range some {
				p.Get(ctx, key)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return c, fmt.Errorf("reading the fencing counters: %w", err)
		}
		for i, cmd := range cmds {
			us, err := strconv.ParseInt(cmd.(*redis.StringCmd).Val(), 10, 64)
			if at := time.UnixMicro(us); err == nil && at.After(c.used) {
				c.counter, c.used = some[i], at
			}
		}
	}
	return c, nil
}
