package deadlock

import (
	"maps"

	"github.com/lockmw/go/internal/core"
)

// A set of ids of waits.
type set map[string]bool

// Stuck returns the waits that are left when all that go on have given back what they have, again and again, and the
// queues were served in the server's order.
func (g *Graph) Stuck() map[string]bool {
	pending := make(set, len(g.Waits))
	for id, w := range g.Waits {
		if !w.Ends && w.View != nil && !w.View.Partial {
			pending[id] = true
		}
	}
	g.reduce(pending, nil)
	return pending
}

// reduce takes out of pending all waits that end. gone has tickets that are not there any more.
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

// ends reports whether w gets its lock if only the waits that are pending go on for ever. Whoever is granted a lock gives
// it back.
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

// inTheWay returns the holders of the key that w waits for which are never given back.
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
	if h == nil {
		return false
	}
	for _, id := range h.Waits {
		if pending[id] {
			return true
		}
	}
	return false
}

// hasWriter reports whether readers have to wait for somebody who waits himself: for readers that hold the lock.
func (g *Graph) hasWriter(v *View, gone set) bool {
	for _, t := range v.Tickets {
		if g.Lasting[t.ID] && !gone[t.ID] {
			return true
		}
	}
	return false
}

// endsBehind serves the queue of a key with permits in its strict order, with what rest leaves, until it has come to w.
func (g *Graph) endsBehind(w *Wait, rest []Holder, gone set) bool {
	used := 0
	for _, h := range rest {
		used += h.Weight
	}
	for _, t := range w.View.Tickets {
		if t.ID != w.Ticket && (!g.Lasting[t.ID] || gone[t.ID]) {
			continue
		}
		if used+t.Weight > t.Of {
			return false
		}
		if t.ID == w.Ticket {
			return true
		}
	}
	return true // it has no ticket by now
}

// frees reports whether the end of a wait would let another one of its component go on, or itself: whoever waits for his own
// hold.
func (g *Graph) frees(id string, component []string, stuck, gone set) bool {
	rest, without := maps.Clone(stuck), maps.Clone(gone)
	delete(rest, id)
	without[g.Waits[id].Ticket] = true
	g.reduce(rest, without)
	for _, other := range component {
		if other != id && !rest[other] {
			return true
		}
	}
	return g.ends(g.Waits[id], rest, gone)
}
