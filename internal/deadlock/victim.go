package deadlock

import (
	"cmp"
	"maps"
	"slices"
)

// mostVictims is how many waits are ended at once. There are more in a later look.
const mostVictims = 16

// Victims returns whose waits are to end so that the others that are stuck go on, as far as they detect deadlocks: one for
// each deadlock if that is enough.
func (g *Graph) Victims(stuck map[string]bool) (victims []*Wait) {
	rest, gone := set(maps.Clone(stuck)), make(set)
	for len(rest) > 0 && len(victims) < mostVictims {
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

// victim returns a wait of a component that waits for no other one, as long as somebody detects deadlocks there. So it does not
// matter who else waits for the component: from wherever one looks, it is the same. It returns nil if there is none.
func (g *Graph) victim(stuck, gone set) *Wait {
	for _, component := range g.components(stuck) {
		if v := g.victimOf(component, stuck, gone); v != nil {
			return v
		}
	}
	return nil
}

// victimOf returns the youngest wait of a component whose end frees another: the end of the youngest of all may free nobody. If
// no end does, because several waits block the same holds, it is the youngest, provided that the end of all of them would.
func (g *Graph) victimOf(component []string, stuck, gone set) *Wait {
	var detect []*Wait
	for _, id := range component {
		if w := g.Waits[id]; w.Detects {
			detect = append(detect, w)
		}
	}
	slices.SortFunc(detect, younger)
	for _, w := range detect {
		if g.frees(w.ID, component, stuck, gone) {
			return w
		}
	}
	rest, gone := maps.Clone(stuck), maps.Clone(gone)
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

// younger orders waits, the youngest first. All processes see the same order.
func younger(a, b *Wait) int {
	return -cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.ID, b.ID))
}

// Circle returns the shortest way from a wait that is stuck, over what is in its way, back to itself; nil if there is
// none. Each wait is for what the next one blocks, and the last one is before the first.
func (g *Graph) Circle(from string, stuck map[string]bool) (circle []*Wait) {
	cameFrom := map[string]string{}
	queue := []string{from}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		for _, next := range g.blockers(g.Waits[id], stuck) {
			if next == from {
				for at := id; at != from; at = cameFrom[at] {
					circle = append(circle, g.Waits[at])
				}
				circle = append(circle, g.Waits[from])
				slices.Reverse(circle)
				return circle
			}
			if _, seen := cameFrom[next]; !seen {
				cameFrom[next] = id
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// blockers returns the stuck waits that block the holds in the way of w. Who stands before w in a queue is in the way, too, but
// waits for the same holds.
func (g *Graph) blockers(w *Wait, stuck set) (ids []string) {
	for _, h := range g.inTheWay(w, stuck) {
		for _, id := range g.Holds[h.Lease].Waits {
			if stuck[id] {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
