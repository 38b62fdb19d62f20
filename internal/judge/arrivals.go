package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// An Arrival is a call for a lock in strict order that was granted. Times are the machine's.
type Arrival struct {
	Key     string
	Asked   time.Duration // when Lock was called
	Queued  time.Duration // when the server had the call in its queue; 0 if that is unknown
	Granted time.Duration // when Lock returned
	Token   int64
	// Excused says that the call may have lost its place, for example because its process stood still.
	Excused bool
}

// Arrivals check strict order across processes: a call that asks after another is queued is granted after it. Tokens tell the
// order of grants. They are not safe for concurrent use.
type Arrivals struct{ recent map[string][]Arrival }

// keptArrivals is the number of grants of each key that a late report is compared with.
const keptArrivals = 500

// NewArrivals returns Arrivals without calls.
func NewArrivals() *Arrivals { return &Arrivals{recent: make(map[string][]Arrival)} }

// Add records a call. It returns violations by this call, or of it.
func (a *Arrivals) Add(c Arrival) (violations []Violation) {
	recent := a.recent[c.Key]
	for _, other := range recent {
		first, second := c, other // in the order of their tokens
		if other.Token < c.Token {
			first, second = other, c
		}
		if !second.Excused && second.Queued > 0 && second.Queued < first.Asked && first.Token < second.Token {
			violations = append(violations, Violation{Kind: Overtaken, Key: c.Key, At: first.Granted, Text: fmt.Sprintf(
				"token %d went to a call that began %v after the call of token %d was queued", first.Token, first.Asked-second.Queued, second.Token)})
		}
	}
	recent = append(recent, c)
	slices.SortFunc(recent, func(a, b Arrival) int { return cmp.Compare(a.Granted, b.Granted) })
	a.recent[c.Key] = recent[max(0, len(recent)-keptArrivals):]
	return violations
}
