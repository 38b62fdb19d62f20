package asynqmw

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"sync"
	"time"
)

// backOff returns how long a task waits for its next attempt: a random time. Its upper limit doubles each
// time the task is put back, up to that of WithRequeueDelay.
func (c *config) backOff(requeued int) time.Duration {
	longest, step, doublings := c.maxDelay, max(c.minDelay, time.Second), min(requeued, 61)+1
	if step < c.maxDelay>>doublings {
		longest = step << doublings
	}
	return c.minDelay + rand.N(longest-c.minDelay+1)
}

// requeues counts how often tasks were put back, as asynq does not count what is not a failure. The
// counts of tasks that were put back longest ago are dropped.
type requeues struct {
	mu            sync.Mutex
	recent, older map[string]int // by the name of an attempt
}

// maxCounted is how many tasks are counted at least.
const maxCounted = 10_000

// take returns a count and drops it.
func (r *requeues) take(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := max(r.recent[id], r.older[id])
	delete(r.recent, id)
	delete(r.older, id)
	return n
}

func (r *requeues) set(id string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent == nil || len(r.recent) >= maxCounted {
		r.recent, r.older = make(map[string]int), r.recent
	}
	r.recent[id] = n
}

// placeID returns the ID under which a task's place in the queue of its lock is kept: that of the task,
// unless it is too long.
func placeID(id string) string {
	if len(id) <= 200 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}
