package figures

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/lockmw"
)

// Counts is what a shop counts while it works.
type Counts struct {
	Announced atomic.Int64 // deliveries handed to the workers
	Delivered atomic.Int64 // … and done with
	Requeued  atomic.Int64 // how often a task went back into the queue because its item was locked

	mu     sync.Mutex
	waited []time.Duration // of requests for their item, the last maxWaits of them
	next   int
}

const maxWaits = 100_000

// Waits observes how long requests wait for the lock of their item.
func (c *Counts) Waits() *lockmw.Observer {
	return &lockmw.Observer{
		Acquired: func(ctx context.Context, _ lockmw.Attempt, g lockmw.Acquisition) context.Context {
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

func (c *Counts) addWait(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waited) < maxWaits {
		c.waited = append(c.waited, d)
		return
	}
	c.waited[c.next] = d
	c.next = (c.next + 1) % maxWaits
}

// percentile returns the wait that p percent of the requests did not exceed; 0 if none wanted a lock.
func (c *Counts) percentile(p int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waited) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.waited))
	return sorted[(len(sorted)-1)*p/100]
}

// Requeues observes how often a task finds its item locked.
func (c *Counts) Requeues() *lockmw.Observer {
	return &lockmw.Observer{
		Failed: func(_ context.Context, _ lockmw.Attempt, err error) {
			if errors.Is(err, lockmw.ErrBusy) {
				c.Requeued.Add(1)
			}
		},
	}
}
