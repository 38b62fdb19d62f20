// Package states visits every state that a model can get into.
package states

import (
	"fmt"
	"math"

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

// An Action is a move of a process, from 0; or of Nobody.
type Action struct {
	Process int
	Name    string
}

// Nobody stands for a move of no process.
const Nobody = -1

// A Move leads to another state.
type Move[S State] = Step[S, Action]

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
		t.All = append(t.All, Move[S]{Action{process, name}, to})
	}
}

// Search visits the first state and all states that moves lead to, until one breaks a promise.
func Search[S State](first S, moves func(*S) []Move[S], broken func(*S) string) Found {
	line := func(m Action, from, _ *S) string {
		who := ""
		if m.Process != Nobody {
			who = fmt.Sprintf("process %d ", m.Process+1)
		}
		return fmt.Sprintf("%2d  %s%s", (*from).Time(), who, m.Name)
	}
	return Space[S, Action]{First: first, Moves: moves, Line: line}.Search(broken, "")
}
