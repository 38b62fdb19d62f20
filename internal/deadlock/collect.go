package deadlock

import (
	"context"
	"slices"

	"github.com/lockmw/go/internal/core"
)

const (
	// MaxHolders limits the holders of a key that are examined, and its tickets.
	MaxHolders = 128
	// maxWaits limits the waits that are examined together, and maxEdges the holders and tickets of their keys. The rest are
	// assumed to continue.
	maxWaits = 1024
	maxEdges = 8192
	// maxBlocking limits the waits that are reported as blocking a hold, in addition to those that are examined anyway: 10,000
	// goroutines may wait with one context.
	maxBlocking = 64
)

// A Site gives access to the locks of one implementation in this process.
type Site interface {
	// Views reads the holders and waiters of keys, each key at one moment. A key that cannot be read has no View.
	Views(ctx context.Context, keys []string) map[string]*View
	// Inbox returns the inbox by which other processes reach this one about a key, or "" if the locks are within this process.
	Inbox(key string) string
	// Lasts reports whether a ticket of this process will wait for longer than ShortWait. key is the ticket's key, or "" if
	// another process asks.
	Lasts(key, ticket string) bool
}

// A collection collects a Graph: first the knowledge of this process, then that of other processes.
type collection struct {
	waits   *Registry
	site    Site // for the tickets that others ask about, and to ask others
	local   bool // only the locks within this process
	graph   *Graph
	leases  map[string]bool // leases that were examined
	tickets map[string]bool
	edges   int
	asks    map[string]*ask // questions to other processes, by inbox
}

// An ask is a question to another process.
type ask struct {
	Leases  []string `json:"l,omitempty"` // which waits block them?
	Tickets []string `json:"t,omitempty"` // will they continue to wait?
}

func newCollection(waits *Registry, site Site) *collection {
	return &collection{
		waits: waits, site: site, graph: NewGraph(), leases: make(map[string]bool), tickets: make(map[string]bool), asks: make(map[string]*ask),
	}
}

// add adds waits of this process, and this process' knowledge of the holds and tickets in their way.
func (c *collection) add(ctx context.Context, list []*NestedWait) {
	for len(list) > 0 && len(c.graph.Waits) < maxWaits {
		seen := c.see(ctx, list)
		list = nil
		for _, n := range seen {
			list = append(list, c.follow(c.graph.Waits[n.id], n.Site)...)
		}
	}
}

// see describes waits, and reads their keys. It returns the waits that are new.
func (c *collection) see(ctx context.Context, list []*NestedWait) (seen []*NestedWait) {
	keys := make(map[Site][]string)
	for _, n := range list {
		if c.graph.Waits[n.id] != nil || c.local && n.Site.Inbox(n.Request.Key) != "" {
			continue
		}
		if w := n.describe(); w != nil {
			c.graph.Waits[n.id] = w
			seen = append(seen, n)
			if !slices.Contains(keys[n.Site], w.Key) {
				keys[n.Site] = append(keys[n.Site], w.Key)
			}
		}
	}
	for site, list := range keys {
		views := site.Views(ctx, list)
		for _, n := range seen {
			if n.Site == site {
				c.show(c.graph.Waits[n.id], views[n.Request.Key])
			}
		}
	}
	return seen
}

// show adds the view of a wait's key, within the limit.
func (c *collection) show(w *Wait, v *View) {
	w.View = nil
	if v == nil {
		return
	}
	if c.edges += len(v.Holders) + len(v.Tickets); c.edges <= maxEdges {
		w.View = v
	}
}

// follow examines the holds and tickets in the way of a wait. It returns waits of this process, and records questions to other
// processes. site is the site of the wait if it belongs to this process.
func (c *collection) follow(w *Wait, site Site) (found []*NestedWait) {
	if w.View == nil || w.View.Partial || w.Ends {
		return nil
	}
	for _, h := range w.View.Holders {
		if !c.leases[h.Lease] {
			found = append(found, c.lookFor(h.Lease, c.inboxOf(w, h.Inbox))...)
		}
	}
	if !w.dependsOnTickets() {
		return found
	}
	for _, t := range w.View.Tickets {
		switch inbox := c.inboxOf(w, t.Inbox); {
		case c.tickets[t.ID]:
		case inbox == "":
			c.tickets[t.ID] = true
			of := site
			if t.Inbox != "" { // another process reports a ticket of this one
				of = c.site
			}
			if of != nil && of.Lasts(w.Key, t.ID) {
				c.graph.Lasting[t.ID] = true
			}
		default:
			c.tickets[t.ID] = true
			a := c.ask(inbox)
			a.Tickets = append(a.Tickets, t.ID)
		}
	}
	return found
}

// dependsOnTickets reports whether the tickets in front of w keep it from its lock as long as they wait.
func (w *Wait) dependsOnTickets() bool {
	if len(w.View.Holders) == 0 {
		return false
	}
	h := w.View.Holders[0]
	return h.Weight > 0 || h.Reads && w.Mode == core.Read
}

// inboxOf returns the inbox that a report about a wait means; "" for this process.
func (c *collection) inboxOf(w *Wait, inbox string) string {
	if inbox == c.site.Inbox(w.Key) {
		return ""
	}
	return inbox
}

// lookFor returns the waits of this process that block a lease. If the lease belongs to the process with the inbox, it records a
// question to that process.
func (c *collection) lookFor(lease, inbox string) (found []*NestedWait) {
	c.leases[lease] = true
	found = c.some(c.waits.blocking(lease))
	if len(found) == 0 && inbox != "" {
		a := c.ask(inbox)
		a.Leases = append(a.Leases, lease)
		return nil
	}
	hold := &Hold{}
	for _, n := range found {
		if w := n.describe(); w != nil && w.blocks(lease) {
			hold.Waits = append(hold.Waits, n.id)
		}
	}
	c.graph.Holds[lease] = hold
	return found
}

// some returns the waits that are examined anyway, and a limited number of others.
func (c *collection) some(all []*NestedWait) (some []*NestedWait) {
	others := 0
	for _, n := range all {
		if c.graph.Waits[n.id] == nil {
			if others == maxBlocking {
				continue
			}
			others++
		}
		some = append(some, n)
	}
	return some
}

func (c *collection) ask(inbox string) *ask {
	if c.asks[inbox] == nil {
		c.asks[inbox] = &ask{}
	}
	return c.asks[inbox]
}

// answer adds this process' answer to a question.
func (c *collection) answer(ctx context.Context, a *ask) {
	for _, id := range a.Tickets {
		if c.site.Lasts("", id) {
			c.graph.Lasting[id] = true
		}
	}
	for _, lease := range a.Leases {
		c.add(ctx, c.lookFor(lease, ""))
	}
}

// merge adds the answer of the process with the inbox, and this process' knowledge of the holds and tickets in the way of the
// reported waits.
func (c *collection) merge(ctx context.Context, told *Graph, inbox string) {
	for lease, h := range told.Holds {
		if h != nil && c.graph.Holds[lease] == nil {
			c.graph.Holds[lease], c.leases[lease] = h, true
		}
	}
	for id, lasts := range told.Lasting {
		if lasts {
			c.graph.Lasting[id] = true
		}
	}
	for id, w := range told.Waits {
		if w == nil || c.graph.Waits[id] != nil || len(c.graph.Waits) >= maxWaits {
			continue
		}
		w.ID, c.graph.Waits[id] = id, w
		c.show(w, w.View)
		if w.Inbox == "" {
			w.Inbox = inbox
		}
		c.add(ctx, c.follow(w, nil))
	}
}
