// Package deadlock finds out which waits for locks can never end.
//
// Its nodes are waits and holds, never owners: an owner may have several goroutines. A wait blocks the holds of its
// own context. A wait that no hold of anybody's could end is stuck:
//
//	graph.go     what was seen of waits and holds, in a process or in several
//	reduce.go    what is left of it when all that go on have given back what they have
//	both.go      what two graphs have in common, so that it was there at one instant
//	component.go which waits are in the way of one another
//	victim.go    whose wait is to end, and the circle that it is in
//	registry.go  the waits of this process whose contexts have holds
//	collect.go   what this process knows of a wait, and what others tell
//	detector.go  when to look, and what to do then
//	message.go   what processes say to one another
//	seal.go      how they know that it was one of them
//
// See docs/deadlocks.md.
package deadlock

import "github.com/lockmw/go/internal/core"

// A Graph is what was seen of waits, and of the holds that they wait for or block. What is not in it is taken to go on.
type Graph struct {
	Waits map[string]*Wait `json:"w,omitempty"` // by their ids
	Holds map[string]*Hold `json:"h,omitempty"` // by their leases
	// Lasting has the tickets whose processes say that they go on waiting. Others are taken to be gone soon.
	Lasting map[string]bool `json:"l,omitempty"`
}

// NewGraph returns an empty Graph.
func NewGraph() *Graph {
	return &Graph{Waits: make(map[string]*Wait), Holds: make(map[string]*Hold), Lasting: make(map[string]bool)}
}

// A Hold is a lease whose process was asked about it. It goes on unless a wait blocks it.
type Hold struct {
	Waits []string `json:"w"` // the ids of the waits that block it
}

// A Wait is a call that waits for a lock, and has others.
type Wait struct {
	ID      string    `json:"-"` // used once
	Key     string    `json:"k"`
	Mode    core.Mode `json:"m,omitempty"`
	Ticket  string    `json:"t,omitempty"` // its own, in the queue of View; "": it has none, or is not to have one
	View    *View     `json:"v"`           // what was seen of the key
	Ends    bool      `json:"e,omitempty"` // by itself, within Soon
	Detects bool      `json:"d,omitempty"` // it may be the victim
	Since   int64     `json:"s"`           // when its outermost hold was granted (us): the youngest is the victim
	Owner   string    `json:"o"`
	Process string    `json:"p"`
	Inbox   string    `json:"i,omitempty"` // of the process; "": that of whoever tells of the wait
	Label   string    `json:"a,omitempty"`
	Waited  int64     `json:"n"`           // for how long (ms)
	Held    []Held    `json:"h,omitempty"` // what its context has, the innermost first
}

// A Held is a hold of the context of a wait.
type Held struct {
	Lease string `json:"l"`
	Key   string `json:"k"`
	Label string `json:"a,omitempty"`
	For   int64  `json:"n"` // since when (ms ago)
}

// A View is what was seen of a key at one moment. Of permits it has the weights; a hold of any other kind has none.
type View struct {
	Holders []Holder `json:"h,omitempty"`
	Tickets []Ticket `json:"q,omitempty"` // but those that wait to read, in the order of the queue
	Admits  bool     `json:"a,omitempty"` // readers are being admitted, though others wait
	Partial bool     `json:"p,omitempty"` // there was more than is shown: whoever waits is taken to go on
}

// A Holder is a lease of the key.
type Holder struct {
	Lease  string `json:"l"`
	Inbox  string `json:"i,omitempty"` // of its process; "": that of whoever tells of it
	Reads  bool   `json:"r,omitempty"`
	Weight int    `json:"w,omitempty"` // of a permit
}

// A Ticket waits for the key.
type Ticket struct {
	ID     string `json:"t"`
	Inbox  string `json:"i,omitempty"`
	Weight int    `json:"w,omitempty"` // of the permit that it is for
	Of     int    `json:"n,omitempty"` // how many permits there are, as the ticket says
}

// index finds the elements of a list by their ids.
func index[T any](list []T, id func(*T) string) map[string]*T {
	m := make(map[string]*T, len(list))
	for i := range list {
		m[id(&list[i])] = &list[i]
	}
	return m
}
