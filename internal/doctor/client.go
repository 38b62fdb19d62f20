package doctor

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// checkClient looks for timeouts that are too long for the lease.
func (e *examination) checkClient(ctx context.Context) {
	switch c := e.rdb.(type) {
	case interface{ Options() *redis.Options }:
		o := c.Options()
		e.checkTimeouts(o.ReadTimeout, o.DialTimeout, o.PoolSize)
	case interface{ Options() *redis.ClusterOptions }:
		o := c.Options()
		e.checkTimeouts(o.ReadTimeout, o.DialTimeout, o.PoolSize)
	default:
		e.note(Unknown, "", "a Redis client of type %T does not show its options", e.rdb)
		return
	}
	if e.topology.Cluster {
		ms := 0 // the longest timeout
		for _, s := range e.servers {
			n, _ := strconv.Atoi(s.config(ctx, "cluster-node-timeout"))
			ms = max(ms, n)
		}
		if away := time.Duration(ms) * time.Millisecond; away > e.options.Lease/2 {
			e.note(Warning, "use a shorter cluster-node-timeout, or a longer lease",
				"cluster-node-timeout is %v: a fail-over takes about twice as long, and a lease of %v may expire before", away, e.options.Lease)
		}
	}
	if len(e.findings) == 0 && !e.options.Borrowed {
		e.note(OK, "", "its timeouts fit a lease of %v", e.options.Lease)
	}
}

func (e *examination) checkTimeouts(read, dial time.Duration, pool int) {
	if e.options.Borrowed {
		return
	}
	if read <= 0 { // go-redis replaces 0 by its default, so this is a negative value
		e.note(Failure, "set ReadTimeout, or keep its default", "ReadTimeout is off: a hung connection is never replaced")
	} else if read > e.options.Lease {
		e.note(Warning, "use a shorter ReadTimeout, or a longer lease", "ReadTimeout is %v: a hung connection stays in use for longer than a lease of %v", read, e.options.Lease)
	}
	if dial > e.options.Lease/2 {
		e.note(Warning, "use a shorter DialTimeout, or a longer lease", "DialTimeout is %v: a dead server is detected too late for a lease of %v", dial, e.options.Lease)
	}
	if pool > 0 && pool < 3 {
		e.note(Warning, "use a PoolSize of at least 3", "PoolSize is %d: calls, renewals and your own commands wait for one another", pool)
	}
}
