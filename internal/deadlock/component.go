package deadlock

import (
	"maps"
	"math"
	"slices"
)

// components returns the sets of deadlocked waits in which each wait is in the way of each other one, directly or over others.
// They contain the cycles. A component comes after the components that are in its way (Tarjan's algorithm).
func (g *Graph) components(deadlocked set) [][]string {
	t := &tarjan{g: g, deadlocked: deadlocked, low: make(map[string]int)}
	for _, id := range slices.Sorted(maps.Keys(deadlocked)) {
		if t.low[id] == 0 {
			t.visit(id)
		}
	}
	return t.found
}

type tarjan struct {
	g          *Graph
	deadlocked set
	stack      []string
	found      [][]string
	// low has the lowest number known to be reachable from each wait that was visited, and math.MaxInt once the wait is off the
	// stack. The waits are numbered as they are visited, from 1.
	low map[string]int
}

func (t *tarjan) visit(id string) {
	number := len(t.low) + 1
	t.low[id] = number
	t.stack = append(t.stack, id)
	own := false // the wait is in its own way
	for _, next := range t.g.blockers(t.g.Waits[id], t.deadlocked) {
		own = own || next == id
		if t.low[next] == 0 {
			t.visit(next)
		}
		t.low[id] = min(t.low[id], t.low[next])
	}
	if t.low[id] < number {
		return
	}
	at := slices.Index(t.stack, id)
	component := slices.Clone(t.stack[at:])
	t.stack = t.stack[:at]
	for _, member := range component {
		t.low[member] = math.MaxInt
	}
	if own || len(component) > 1 {
		t.found = append(t.found, component)
	}
}
