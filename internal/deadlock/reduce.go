package deadlock

import (
	"maps"
	"slices"

	"github.com/lockmw/go/internal/core"
)

// A set of ids of waits.
type set map[string]bool

// Deadlocked returns the waits that are left when, again and again, all waits that can continue have released their holds, and
// the queues were served in the server's order.
func (g *Graph) Deadlocked() map[string]bool {
	pending := make(set, len(g.Waits))
	for id, w := range g.Waits {
		if !w.Ends && w.View != nil && !w.View.Partial {
			pending[id] = true
		}
	}
	g.reduce(pending, nil)
	return pending
}

// reduce removes all waits that end from pending. gone has the tickets that no longer exist.
func (g *Graph) reduce(pending set, gone set) {
	for {
		before := len(pending)
		for id := range pending {
			if g.ends(g.Waits[id], pending, gone) {
				delete(pending, id)
			}
		}
		if len(pending) == before {
			return
		}
	}
}

// ends reports whether w gets its lock if only the pending waits last forever. A call that is granted a lock releases it.
func (g *Graph) ends(w *Wait, pending set, gone set) bool {
	rest := g.inTheWay(w, pending)
	if len(rest) == 0 {
		return true
	}
	switch {
	case rest[0].Weight > 0:
		return w.Ticket == "" || g.endsBehind(w, rest, gone)
	case rest[0].Reads && w.Mode == core.Read:
		return w.Ticket == "" || w.View.Admits || !g.hasWriter(w.View, gone)
	}
	return false
}

// inTheWay returns the holders of w's key that never release it.
func (g *Graph) inTheWay(w *Wait, pending set) (rest []Holder) {
	for _, h := range w.View.Holders {
		if g.isBlocked(h.Lease, pending) {
			rest = append(rest, h)
		}
	}
	return rest
}

func (g *Graph) isBlocked(lease string, pending set) bool {
	h := g.Holds[lease]
	return h != nil && slices.ContainsFunc(h.Waits, func(id string) bool { return pending[id] })
}

// hasWriter reports whether readers have to wait for a writer, which itself waits for readers that hold the lock.
func (g *Graph) hasWriter(v *View, gone set) bool {
	return slices.ContainsFunc(v.Tickets, func(t Ticket) bool { return g.Lasting[t.ID] && !gone[t.ID] })
}

// endsBehind serves the queue of a semaphore's key in strict order, with the permits that rest leaves free. It reports whether
// that reaches w.
func (g *Graph) endsBehind(w *Wait, rest []Holder, gone set) bool {
	used := 0
	for _, h := range rest {
		used += h.Weight
	}
	for _, t := range w.View.Tickets {
		if t.ID != w.Ticket && (!g.Lasting[t.ID] || gone[t.ID]) {
			continue
		}
		if used+t.Weight > t.Permits {
			return false
		}
		if t.ID == w.Ticket {
			return true
		}
	}
	return true // it no longer has a ticket
}

// frees reports whether the end of a wait would let another wait of its component continue. It also returns true if it would let
// the wait itself continue, as when it waits for its own hold.
func (g *Graph) frees(id string, component []string, deadlocked, gone set) bool {
	rest, without := maps.Clone(deadlocked), maps.Clone(gone)
	delete(rest, id)
	without[g.Waits[id].Ticket] = true
	g.reduce(rest, without)
	return slices.ContainsFunc(component, func(other string) bool { return other != id && !rest[other] }) || g.ends(g.Waits[id], rest, gone)
}
