// Package deadlock finds waits for locks that can never end.
//
// Its nodes are waits and holds, never owners, because an owner may have several goroutines. A wait blocks the holds of its own
// context. A wait is deadlocked if no hold can end it:
//
//	graph.go     the waits and holds that were seen, in one process or several
//	reduce.go    what is left when all waits that can continue have released their holds
//	intersect.go the common part of two graphs, which existed at one instant
//	component.go sets of waits that are in the way of one another
//	victim.go    the wait that is to end, and its cycle
//	registry.go  the waits of this process whose contexts have holds
//	collect.go   what this process knows of a wait, and what others answer
//	detector.go  when to check, and what to do then
//	message.go   the messages between processes
//	seal.go      how processes recognise messages of one another
//
// See docs/deadlocks.md.
package deadlock

import "github.com/lockmw/go/internal/core"

// A Graph is the waits that were seen, and the holds that they wait for or block. Everything that is not in it is assumed to
// continue.
type Graph struct {
	Waits map[string]*Wait `json:"w,omitempty"` // by their ids
	Holds map[string]*Hold `json:"h,omitempty"` // by their leases
	// Lasting has the tickets that will continue to wait, according to their processes. All others are assumed to be gone soon.
	Lasting map[string]bool `json:"l,omitempty"`
}

// NewGraph returns an empty Graph.
func NewGraph() *Graph {
	return &Graph{Waits: make(map[string]*Wait), Holds: make(map[string]*Hold), Lasting: make(map[string]bool)}
}

// A Hold is a lease whose process was asked about it. It will be released unless a wait blocks it.
type Hold struct {
	Waits []string `json:"w"` // the ids of the waits that block it
}

// A Wait is a call that waits for a lock and holds others.
type Wait struct {
	ID      string    `json:"-"` // used once
	Key     string    `json:"k"`
	Mode    core.Mode `json:"m,omitempty"`
	Ticket  string    `json:"t,omitempty"` // its own, in the queue of View; "": it has none, or its ticket is to be ignored
	View    *View     `json:"v"`           // the state of the key
	Ends    bool      `json:"e,omitempty"` // it ends by itself, within ShortWait
	Detects bool      `json:"d,omitempty"` // it may be the victim
	Since   int64     `json:"s"`           // when its outermost hold was granted (µs): the youngest wait is the victim
	Owner   string    `json:"o"`
	Process string    `json:"p"`
	Inbox   string    `json:"i,omitempty"` // of the process; "": the process that reports the wait
	Label   string    `json:"a,omitempty"`
	Waited  int64     `json:"n"`           // how long (ms)
	Held    []Held    `json:"h,omitempty"` // the holds of its context, the innermost first
}

// A Held is a hold of the context of a wait.
type Held struct {
	Lease string `json:"l"`
	Key   string `json:"k"`
	Label string `json:"a,omitempty"`
	For   int64  `json:"n"` // how long it has been held (ms)
}

// A View is the state of a key at one moment. Permits have weights; other holds have none.
type View struct {
	Holders []Holder `json:"h,omitempty"`
	Tickets []Ticket `json:"q,omitempty"` // without tickets that wait to read; in the order of the queue
	Admits  bool     `json:"a,omitempty"` // readers are being admitted although others wait
	Partial bool     `json:"p,omitempty"` // the view is incomplete: all waits for the key are assumed to continue
}

// A Holder is a lease of the key.
type Holder struct {
	Lease  string `json:"l"`
	Inbox  string `json:"i,omitempty"` // of its process; "": the process that reports it
	Reads  bool   `json:"r,omitempty"`
	Weight int    `json:"w,omitempty"` // of a permit
}

// A Ticket waits for the key.
type Ticket struct {
	ID      string `json:"t"`
	Inbox   string `json:"i,omitempty"`
	Weight  int    `json:"w,omitempty"` // of the permit that it requests
	Permits int    `json:"n,omitempty"` // the n of the semaphore, according to the ticket
}
