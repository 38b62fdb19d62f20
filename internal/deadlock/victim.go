package deadlock

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockmw/go/internal/core"
)

// Victims returns whose waits are to end so that the others that are stuck go on, as far as they detect deadlocks: one for
// each deadlock if that is enough.
func (g *Graph) Victims(stuck map[string]bool) (victims []*Wait) {
	rest := set(maps.Clone(stuck))
	for len(rest) > 0 {
		v := g.victim(rest)
		if v == nil {
			return victims
		}
		victims = append(victims, v)
		delete(rest, v.ID)
		g.reduce(rest, v.Ticket)
	}
	return victims
}

// victim returns the youngest wait of stuck that is in a circle and whose end frees another: the end of the youngest of all
// may free nobody. If no end does, because several waits block the same holds, it is the youngest in a circle. It returns nil
// if there is none that detects deadlocks.
func (g *Graph) victim(stuck set) *Wait {
	var inCircle []*Wait
	for id := range stuck {
		if w := g.Waits[id]; w.Detects && g.Circle(id, stuck) != nil {
			inCircle = append(inCircle, w)
		}
	}
	if len(inCircle) == 0 {
		return nil
	}
	slices.SortFunc(inCircle, younger)
	for _, w := range inCircle {
		if g.frees(w.ID, stuck) {
			return w
		}
	}
	return inCircle[0]
}

// younger orders waits, the youngest first. All processes see the same order.
func younger(a, b *Wait) int {
	return -cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.ID, b.ID))
}

// Circle returns the shortest way from a wait that is stuck, over what is in its way, back to itself; nil if there is
// none. Each wait is for what the next one blocks, or stands behind it in a queue, and the last one is before the first.
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

// blockers returns the stuck waits that are in the way of w: those that block a hold, and those in the queue before it.
func (g *Graph) blockers(w *Wait, stuck set) (ids []string) {
	rest := g.inTheWay(w, stuck)
	for _, h := range rest {
		for _, id := range g.Holds[h.Lease].Waits {
			if stuck[id] {
				ids = append(ids, id)
			}
		}
	}
	if len(rest) > 0 && (rest[0].Weight > 0 || rest[0].Reads && w.Mode == core.Read) {
		tickets := index(w.View.before(w.Ticket), func(t *Ticket) string { return t.ID })
		for id := range stuck {
			if tickets[g.Waits[id].Ticket] != nil {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// before returns the tickets that one stands behind. Readers stand behind all others.
func (v *View) before(ticket string) []Ticket {
	if i := slices.IndexFunc(v.Tickets, func(t Ticket) bool { return t.ID == ticket }); i >= 0 {
		return v.Tickets[:i]
	}
	return v.Tickets
}
