package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

// counts is what a shop counts while it works.
type counts struct {
	announced atomic.Int64 // deliveries handed to the workers
	delivered atomic.Int64 // … and done with
	requeued  atomic.Int64 // how often a task went back into the queue because its item was locked

	mu     sync.Mutex
	waited []time.Duration // of requests for their item, the last maxWaits of them
	next   int
}

const maxWaits = 100_000

// waits observes how long requests wait for the lock of their item.
func (c *counts) waits() *lockmw.Observer {
	return &lockmw.Observer{
		Acquired: func(ctx context.Context, _ lockmw.Attempt, g lockmw.Grant) context.Context {
			c.addWait(g.Waited)
			return ctx
		},
		Failed: func(_ context.Context, _ lockmw.Attempt, err error) {
			if e, ok := errors.AsType[*lockmw.Error](err); ok {
				c.addWait(e.Waited)
			}
		},
	}
}

func (c *counts) addWait(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waited) < maxWaits {
		c.waited = append(c.waited, d)
		return
	}
	c.waited[c.next] = d
	c.next = (c.next + 1) % maxWaits
}

// percentile returns the wait that p percent of the requests did not exceed; 0 if none asked for a lock.
func (c *counts) percentile(p int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waited) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.waited))
	return sorted[(len(sorted)-1)*p/100]
}

// requeues observes how often a task finds its item locked.
func (c *counts) requeues() *lockmw.Observer {
	return &lockmw.Observer{
		Failed: func(_ context.Context, _ lockmw.Attempt, err error) {
			if errors.Is(err, lockmw.ErrBusy) {
				c.requeued.Add(1)
			}
		},
	}
}
