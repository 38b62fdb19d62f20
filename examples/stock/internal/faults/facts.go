package faults

import (
	"fmt"
	"strings"
)

// Facts are the results of a script.
type Facts struct {
	Sold       int `json:"sold"`         // orders in the books
	Oversold   int `json:"oversold"`     // orders beyond the stock
	Duplicates int `json:"duplicates"`   // orders beyond a user's first
	Accepted   int `json:"accepted"`     // calls whose answer confirmed the order
	Blocked    int `json:"blocked"`      // calls that did not get a lock that should have been free
	ToldOfLoss int `json:"told_of_loss"` // calls whose answer was that their lock was lost
	Overtaken  int `json:"overtaken"`    // calls that were overtaken by a later call
	Missing    int `json:"missing"`      // orders that Redis had counted and the books lacked after a process died
	Recovered  int `json:"recovered"`    // missing orders that were stored in the end
	Retries    int `json:"retries"`      // failed tries

	// With idempotency keys.
	Contradicting int `json:"contradicting"` // answers with another receipt than the first answer for the same key
	Unknown       int `json:"unknown"`       // calls whose answer was that the outcome of an earlier call is unknown
	NotKept       int `json:"not_kept"`      // calls whose answer was that the order is stored, without its receipt
	Lost          int `json:"lost"`          // orders that are not in the books although the user has clicked again, or has their receipt
}

// String lists the faults, or returns "nothing".
func (f Facts) String() string {
	var words []string
	for _, n := range []struct {
		n    int
		word string
	}{
		{f.Oversold, "oversold"}, {f.Duplicates, "duplicate"}, {f.Blocked, "blocked"}, {f.Overtaken, "overtaken"},
		{f.Contradicting, "contradicting"}, {f.Unknown, "unknown"}, {f.NotKept, "without receipt"}, {f.Lost, "lost"},
		{f.Missing, "missing"}, {f.Recovered, "recovered"}, {f.ToldOfLoss, "told of the loss"},
	} {
		if n.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n.n, n.word))
		}
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}
