package faults

import (
	"fmt"
	"strings"
)

// Facts are what came of a script.
type Facts struct {
	Sold       int `json:"sold"`         // orders in the books
	Oversold   int `json:"oversold"`     // … beyond the stock
	Duplicates int `json:"duplicates"`   // … beyond a user's first
	Accepted   int `json:"accepted"`     // calls that were told that they have an order
	Blocked    int `json:"blocked"`      // calls that did not get a lock that nobody should have had
	ToldOfLoss int `json:"told_of_loss"` // calls that were told that their lock was lost
	Overtaken  int `json:"overtaken"`    // calls that came first and were served last
	Missing    int `json:"missing"`      // orders that Redis had counted and the books had not, when a process had died
	Recovered  int `json:"recovered"`    // … of them stored in the end
	Retries    int `json:"retries"`      // tries in vain
}

// String names what happened to anybody, or says that nothing did.
func (f Facts) String() string {
	var words []string
	for _, n := range []struct {
		n    int
		word string
	}{
		{f.Oversold, "oversold"}, {f.Duplicates, "duplicate"}, {f.Blocked, "blocked"}, {f.Overtaken, "overtaken"},
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
