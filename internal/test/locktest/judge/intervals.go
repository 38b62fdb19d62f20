package judge

import (
	"sync"
	"time"
)

// Intervals are the times at which something was out of order. Safe for concurrent use.
type Intervals struct {
	mu   sync.Mutex
	from []time.Duration
	to   []time.Duration // one less than of the others while an interval lasts
}

// Begin notes that one begins.
func (i *Intervals) Begin(t time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.from = append(i.from, t)
}

// End notes that it ends.
func (i *Intervals) End(t time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.to = append(i.to, t)
}

// Within is how much of a time they make up.
func (i *Intervals) Within(from, to time.Duration) (sum time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, begun := range i.from {
		end := to
		if n < len(i.to) {
			end = min(to, i.to[n])
		}
		sum += max(0, end-max(from, begun))
	}
	return sum
}
