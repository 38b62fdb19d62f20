package judge

import (
	"sync"
	"time"
)

// Intervals are the times during which a fault lasted. They are safe for concurrent use.
type Intervals struct {
	mu   sync.Mutex
	from []time.Duration
	to   []time.Duration // one shorter than from during an interval
}

// Begin records the start of an interval.
func (i *Intervals) Begin(t time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.from = append(i.from, t)
}

// End records the end of an interval.
func (i *Intervals) End(t time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.to = append(i.to, t)
}

// Within returns how much of the time from..to lies in intervals.
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
