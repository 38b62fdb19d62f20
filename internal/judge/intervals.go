package judge

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// An Interval is a time during which something stood still or was disturbed.
type Interval struct{ From, To time.Duration }

// Within returns how much of the time from..to lies in at least one of the intervals.
func Within(from, to time.Duration, all ...[]Interval) (sum time.Duration) {
	some := slices.Concat(all...)
	slices.SortFunc(some, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	for _, i := range some {
		if end := min(to, i.To); end > max(from, i.From) {
			sum += end - max(from, i.From)
			from = end
		}
	}
	return sum
}

// Sum returns the time that lies in at least one of the intervals.
func Sum(all []Interval) time.Duration { return Within(math.MinInt64, math.MaxInt64, all) }

// Intervals are the times during which a fault lasted. They are safe for concurrent use.
type Intervals struct {
	mu  sync.Mutex
	all []Interval
}

// Begin records the start of an interval.
func (i *Intervals) Begin(t time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, Interval{t, math.MaxInt64})
}

// End records the end of the interval that began last.
func (i *Intervals) End(t time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all[len(i.all)-1].To = t
}

// All returns the intervals. An interval that has not ended has no end.
func (i *Intervals) All() []Interval {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.all)
}

// Within returns how much of the time from..to lies in intervals.
func (i *Intervals) Within(from, to time.Duration) time.Duration { return Within(from, to, i.All()) }
