package deadlock

// Intersect returns the parts that a and b have in common; the collection of b must have begun when a was complete. Waits, holds
// and tickets have ids that are used once, so everything that is in both existed throughout the time from the end of a to the
// beginning of b, at one instant together. Everything that is in only one of them is assumed to continue.
func Intersect(a, b *Graph) *Graph {
	g := NewGraph()
	for id, w := range b.Waits {
		if old := a.Waits[id]; old != nil && old.View != nil && w.View != nil {
			both := *w
			both.Ends = old.Ends || w.Ends
			both.View = bothViews(old.View, w.View)
			if old.Ticket != w.Ticket {
				both.Ticket = ""
			}
			g.Waits[id] = &both
		}
	}
	for lease, h := range b.Holds {
		old := a.Holds[lease]
		if old == nil {
			continue
		}
		both := &Hold{}
		before := index(old.Waits, func(id *string) string { return *id })
		for _, id := range h.Waits {
			if before[id] != nil {
				both.Waits = append(both.Waits, id)
			}
		}
		g.Holds[lease] = both
	}
	for id := range b.Lasting {
		if a.Lasting[id] {
			g.Lasting[id] = true
		}
	}
	return g
}

func bothViews(a, b *View) *View {
	v := &View{Admits: a.Admits || b.Admits, Partial: a.Partial || b.Partial}
	holders := index(a.Holders, func(h *Holder) string { return h.Lease })
	for _, h := range b.Holders {
		if old := holders[h.Lease]; old != nil && *old == h {
			v.Holders = append(v.Holders, h)
		}
	}
	tickets := index(a.Tickets, func(t *Ticket) string { return t.ID })
	for _, t := range b.Tickets {
		if old := tickets[t.ID]; old != nil && *old == t {
			v.Tickets = append(v.Tickets, t)
		}
	}
	return v
}
