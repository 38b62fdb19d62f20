// Package states visits every state that a model can get into.
package states

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockmw/go/internal/test/suite"
)

// Limit returns the number of states that a search may visit: all of them in the full suite.
func Limit() int {
	if suite.Full() {
		return math.MaxInt
	}
	return 50_000
}

// A State is everything in a model at one time. Equal states are the same.
type State interface {
	comparable
	Time() int
}

// A Move leads to another state.
type Move[S State] struct {
	Process int // the process that moves, from 0; or Nobody
	Name    string
	To      S
}

// Nobody stands for a move of no process.
const Nobody = -1

// Steps collects the moves from a state.
type Steps[S State] struct {
	from *S
	All  []Move[S]
}

// From starts to collect the moves from a state.
func From[S State](s *S) *Steps[S] { return &Steps[S]{from: s} }

// By returns a function that adds a move of a process, which changes a copy of the state.
func (t *Steps[S]) By(process int) func(name string, change func(*S)) {
	return func(name string, change func(*S)) {
		to := *t.from
		change(&to)
		t.All = append(t.All, Move[S]{Process: process, Name: name, To: to})
	}
}

// Found is the result of a search.
type Found struct {
	States int    // states visited
	Cut    bool   // there are more than Limit
	Broken string // the promise that the last state breaks; empty: none is broken
	Path   string // the moves that lead to it, each on a line with its time
}

// Search visits the first state and all states that moves lead to, until one breaks a promise. It goes breadth first, so the
// path to that state is the shortest.
func Search[S State](first S, moves func(*S) []Move[S], broken func(*S) string) Found {
	type visited struct {
		Move[S]
		parent int
	}
	limit := Limit()
	list := []visited{{Move: Move[S]{To: first}}}
	index := map[S]struct{}{first: {}}
	for i := 0; i < len(list); i++ {
		if i == limit {
			return Found{States: i, Cut: true}
		}
		s := list[i].To
		if why := broken(&s); why != "" {
			var path []string
			for j := i; j > 0; j = list[j].parent {
				m := list[j]
				who := ""
				if m.Process != Nobody {
					who = fmt.Sprintf("process %d ", m.Process+1)
				}
				path = append(path, fmt.Sprintf("%2d  %s%s", list[m.parent].To.Time(), who, m.Name))
			}
			slices.Reverse(path)
			return Found{States: len(list), Broken: why, Path: strings.Join(path, "\n")}
		}
		for _, m := range moves(&s) {
			if _, ok := index[m.To]; !ok {
				index[m.To] = struct{}{}
				list = append(list, visited{m, i})
			}
		}
	}
	return Found{States: len(list)}
}
