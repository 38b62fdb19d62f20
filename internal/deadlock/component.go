package deadlock

import (
	"maps"
	"slices"
)

// components returns the sets of deadlocked waits in which each wait is in the way of each other one, directly or over others.
// They contain the cycles. A component comes after the components that are in its way (Tarjan's algorithm).
func (g *Graph) components(deadlocked set) [][]string {
	t := &tarjan{g: g, deadlocked: deadlocked, number: make(map[string]int), low: make(map[string]int), open: make(set)}
	for _, id := range slices.Sorted(maps.Keys(deadlocked)) {
		if t.number[id] == 0 {
			t.visit(id)
		}
	}
	return t.found
}

type tarjan struct {
	g          *Graph
	deadlocked set
	number     map[string]int // the order in which the waits were visited
	low        map[string]int // the lowest number known to be reachable
	stack      []string
	open       set // the elements of the stack
	found      [][]string
}

func (t *tarjan) visit(id string) {
	t.number[id] = len(t.number) + 1
	t.low[id] = t.number[id]
	t.stack, t.open[id] = append(t.stack, id), true
	own := false // the wait is in its own way
	for _, next := range t.g.blockers(t.g.Waits[id], t.deadlocked) {
		own = own || next == id
		if t.number[next] == 0 {
			t.visit(next)
			t.low[id] = min(t.low[id], t.low[next])
		} else if t.open[next] {
			t.low[id] = min(t.low[id], t.number[next])
		}
	}
	if t.low[id] < t.number[id] {
		return
	}
	at := slices.Index(t.stack, id)
	component := slices.Clone(t.stack[at:])
	t.stack = t.stack[:at]
	for _, member := range component {
		delete(t.open, member)
	}
	if own || len(component) > 1 {
		t.found = append(t.found, component)
	}
}
