package deadlock

import (
	"cmp"
	"maps"
	"slices"
)

// maxVictims limits the waits that are ended together. The next check ends more.
const maxVictims = 16

// Victims returns the waits that are to end so that the other deadlocked waits can continue: one for each deadlock if that is
// enough. Only waits that detect deadlocks are victims.
func (g *Graph) Victims(deadlocked map[string]bool) (victims []*Wait) {
	rest, gone := set(maps.Clone(deadlocked)), make(set)
	for len(rest) > 0 && len(victims) < maxVictims {
		v := g.victim(rest, gone)
		if v == nil {
			return victims
		}
		victims = append(victims, v)
		delete(rest, v.ID)
		gone[v.Ticket] = true
		g.reduce(rest, gone)
	}
	return victims
}

// victim returns a wait of the first component that contains a wait which detects deadlocks. Components that wait for no other
// come first, so the choice does not depend on the waits behind a component, and is the same from wherever the check begins. It
// returns nil if there is none.
func (g *Graph) victim(deadlocked, gone set) *Wait {
	for _, component := range g.components(deadlocked) {
		if v := g.victimOf(component, deadlocked, gone); v != nil {
			return v
		}
	}
	return nil
}

// victimOf returns the youngest wait of a component whose end frees another; the end of the youngest of all may free none. If no
// single end does, because several waits block the same holds, it returns the youngest, provided that the end of all of them
// would.
func (g *Graph) victimOf(component []string, deadlocked, gone set) *Wait {
	var detect []*Wait
	for _, id := range component {
		if w := g.Waits[id]; w.Detects {
			detect = append(detect, w)
		}
	}
	slices.SortFunc(detect, younger)
	for _, w := range detect {
		if g.frees(w.ID, component, deadlocked, gone) {
			return w
		}
	}
	rest, gone := maps.Clone(deadlocked), maps.Clone(gone)
	for _, w := range detect {
		delete(rest, w.ID)
		gone[w.Ticket] = true
	}
	before := len(rest)
	g.reduce(rest, gone)
	if len(detect) == 0 || len(detect) < len(component) && len(rest) == before {
		return nil
	}
	return detect[0]
}

// younger orders waits, the youngest first. The order is the same in all processes.
func younger(a, b *Wait) int {
	return -cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.ID, b.ID))
}

// Cycle returns the shortest cycle through a deadlocked wait; nil if there is none. Each wait is for a hold that the next wait
// blocks, and the last wait is for a hold that the first one blocks.
func (g *Graph) Cycle(from string, deadlocked map[string]bool) (cycle []*Wait) {
	cameFrom := map[string]string{}
	queue := []string{from}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		for _, next := range g.blockers(g.Waits[id], deadlocked) {
			if next == from {
				for at := id; at != from; at = cameFrom[at] {
					cycle = append(cycle, g.Waits[at])
				}
				cycle = append(cycle, g.Waits[from])
				slices.Reverse(cycle)
				return cycle
			}
			if _, seen := cameFrom[next]; !seen {
				cameFrom[next] = id
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// blockers returns the deadlocked waits that block the holds in the way of w. A wait in front of w in a queue is also in its way,
// but waits for the same holds.
func (g *Graph) blockers(w *Wait, deadlocked set) (ids []string) {
	for _, h := range g.inTheWay(w, deadlocked) {
		for _, id := range g.Holds[h.Lease].Waits {
			if deadlocked[id] {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
