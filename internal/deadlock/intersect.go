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
		if old := a.Holds[lease]; old != nil {
			g.Holds[lease] = &Hold{Waits: common(old.Waits, h.Waits)}
		}
	}
	for id := range b.Lasting {
		if a.Lasting[id] {
			g.Lasting[id] = true
		}
	}
	return g
}

func bothViews(a, b *View) *View {
	return &View{
		Holders: common(a.Holders, b.Holders), Tickets: common(a.Tickets, b.Tickets), Admits: a.Admits || b.Admits, Partial: a.Partial || b.Partial,
	}
}

// common returns the elements of b that are in a.
func common[T comparable](a, b []T) (both []T) {
	in := make(map[T]bool, len(a))
	for _, x := range a {
		in[x] = true
	}
	for _, x := range b {
		if in[x] {
			both = append(both, x)
		}
	}
	return both
}
