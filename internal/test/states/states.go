// Package states visits every state that a model can get into.
package states

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lockmw/go/internal/test/suite"
)

// Limit is how many states a search visits at most: all of them in the full suite.
func Limit() int {
	if suite.Full() {
		return math.MaxInt
	}
	return 50_000
}

// A State is all there is in a model at one time. Two that are equal are the same.
type State interface {
	comparable
	Time() int
}

// A Move leads to another state.
type Move[S State] struct {
	Process int // whose move it is, from 0; or Nobody
	Name    string
	To      S
}

// Nobody is no process: what happens to all of them.
const Nobody = -1

// Steps are the moves from a state.
type Steps[S State] struct {
	from *S
	All  []Move[S]
}

// From collects the moves from a state.
func From[S State](s *S) *Steps[S] { return &Steps[S]{from: s} }

// By returns what adds a move of a process: how it changes a copy of the state.
func (t *Steps[S]) By(process int) func(name string, change func(*S)) {
	return func(name string, change func(*S)) {
		to := *t.from
		change(&to)
		t.All = append(t.All, Move[S]{Process: process, Name: name, To: to})
	}
}

// Found is what a search has found.
type Found struct {
	States int    // that were visited
	Cut    bool   // there are more than Limit
	Broken string // the promise that the last of them breaks; empty: none does
	Path   string // the moves that lead to that one, each on a line with its time
}

// Search visits the first state and all that moves lead to, breadth first, until one breaks a promise: so that the path to it is
// as short as can be.
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
