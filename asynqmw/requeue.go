package asynqmw

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/lockmw/go/internal/middleware"
)

// backOff returns a random time until the next attempt of a task. Its upper limit doubles each time that the task is put back, up
// to the limit of WithRequeueDelay.
func (c *config) backOff(requeued int) time.Duration {
	return middleware.BackOff(c.minDelay, max(c.minDelay, time.Second), c.maxDelay, requeued)
}

// requeues counts how often tasks were put back, because asynq counts only failures. It drops the counts of the tasks that were put
// back longest ago.
type requeues struct {
	mu            sync.Mutex
	recent, older map[string]int // by the name of an attempt
}

// maxCounted is the least number of tasks whose counts are kept.
const maxCounted = 10_000

// take removes a count and returns it.
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

// placeID returns the ID under which a task's place in the queue of its lock is kept. It is the task's ID, or a hash if that is too
// long.
func placeID(id string) string {
	if len(id) <= 200 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}
