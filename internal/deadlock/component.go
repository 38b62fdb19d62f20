package deadlock

import (
	"maps"
	"slices"
)

// components returns the sets of stuck waits in which each is in the way of each, over others: that is where the circles are.
// A component comes after those that are in its way (Tarjan's algorithm).
func (g *Graph) components(stuck set) [][]string {
	t := &tarjan{g: g, stuck: stuck, number: make(map[string]int), low: make(map[string]int), open: make(set)}
	for _, id := range slices.Sorted(maps.Keys(stuck)) {
		if t.number[id] == 0 {
			t.visit(id)
		}
	}
	return t.found
}

type tarjan struct {
	g      *Graph
	stuck  set
	number map[string]int // in which order the waits were visited
	low    map[string]int // the lowest number that is known to be reached
	stack  []string
	open   set // what is in the stack
	found  [][]string
}

func (t *tarjan) visit(id string) {
	t.number[id] = len(t.number) + 1
	t.low[id] = t.number[id]
	t.stack, t.open[id] = append(t.stack, id), true
	own := false // it is in its own way
	for _, next := range t.g.blockers(t.g.Waits[id], t.stuck) {
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
