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

// Counts has the counters of a running shop.
type Counts struct {
	Announced atomic.Int64 // deliveries passed to the workers
	Delivered atomic.Int64 // … finished
	Requeued  atomic.Int64 // tasks that returned to the queue because their item was locked

	mu     sync.Mutex
	waited []time.Duration // of requests for their item, the last maxWaits of them
	next   int
}

const maxWaits = 100_000

// Waits returns an observer of the waits of requests for their item.
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

// percentile returns the p-th percentile of the waits; 0 if there were none.
func (c *Counts) percentile(p int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waited) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(c.waited))
	return sorted[(len(sorted)-1)*p/100]
}

// Requeues returns an observer that counts tasks whose item is locked.
func (c *Counts) Requeues() *lockmw.Observer {
	return &lockmw.Observer{
		Failed: func(_ context.Context, _ lockmw.Attempt, err error) {
			if errors.Is(err, lockmw.ErrBusy) {
				c.Requeued.Add(1)
			}
		},
	}
}
