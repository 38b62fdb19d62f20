package deadlock

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
)

const (
	// Soon is within what time an end counts as going on.
	Soon = 2 * time.Second
	// Every is after what time a wait is looked at again.
	Every = 10 * time.Second
)

// A Nested is a wait of this process whose context has holds. Its fields are not changed after Begin, except for
// those of Detector.
type Nested struct {
	Waits   *Registry
	Request *core.Request
	Began   time.Time
	Until   time.Time // when the wait ends by itself; zero: never
	Process string
	Site    Site
	Call    Call
	// Wake has Look called for the wait after that time.
	Wake func(after time.Duration)

	// Found gets the deadlock that the wait is to end for. It has room for one.
	Found chan *core.DeadlockError

	id      string
	chain   core.Chain
	leases  []string    // that its context had at the beginning: it gets no others
	due     atomic.Bool // a Detector is going to look
	retried atomic.Bool // it was looked at once more, after something had changed
}

// A Call is a call that waits.
type Call interface {
	// State returns the ticket that the call waits with, or "", and whether it waits.
	State() (ticket string, waits bool)
}

// A Registry has the nested waits of a process.
type Registry struct {
	mu     sync.Mutex
	ids    map[string]*Nested
	leases map[string][]*Nested // that they block
	last   uint64
	stem   string
}

// NewRegistry returns an empty Registry.
func NewRegistry() *Registry {
	random := make([]byte, 12)
	_, _ = rand.Read(random) // never fails
	return &Registry{
		ids: make(map[string]*Nested), leases: make(map[string][]*Nested), stem: hex.EncodeToString(random) + ".",
	}
}

// Shared is the one Registry of this process, for all its Clients: a deadlock may go through several. Tests have others,
// to be several processes.
var Shared = NewRegistry()

// NewID returns an id that no process has used before.
func (r *Registry) NewID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newID()
}

// newID is NewID with the mutex locked.
func (r *Registry) newID() string {
	r.last++
	return r.stem + strconv.FormatUint(r.last, 36)
}

// Begin registers a wait. It reports whether its context has a hold that others may wait for: if not there is nothing to
// end.
func (n *Nested) Begin(chain core.Chain) bool {
	for _, h := range chain.Live() {
		if s, ok := h.Hold.(core.StandingHold); ok {
			if lease := s.Standing().Lease; !slices.Contains(n.leases, lease) {
				n.leases = append(n.leases, lease)
			}
		}
	}
	if len(n.leases) == 0 {
		return false
	}
	n.chain, n.Found = chain, make(chan *core.DeadlockError, 1)
	r := n.Waits
	r.mu.Lock()
	defer r.mu.Unlock()
	n.id = r.newID()
	r.ids[n.id] = n
	for _, lease := range n.leases {
		r.leases[lease] = append(r.leases[lease], n)
	}
	return true
}

// End takes the wait off the registry.
func (n *Nested) End() {
	r := n.Waits
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ids, n.id)
	for _, lease := range n.leases {
		left := slices.DeleteFunc(r.leases[lease], func(other *Nested) bool { return other == n })
		if len(left) == 0 {
			delete(r.leases, lease)
		} else {
			r.leases[lease] = left
		}
	}
}

// EachHold calls f for the holds of the wait's context.
func (n *Nested) EachHold(f func(core.Hold)) {
	for _, h := range n.chain.Live() {
		f(h.Hold)
	}
}

// inbox returns where others answer: the process listens to it because of the wait.
func (n *Nested) inbox() string { return n.Site.Inbox(n.Request.Key) }

// Len returns how many waits are registered, and how many leases they block.
func (r *Registry) Len() (waits, leases int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids), len(r.leases)
}

// find returns the wait with an id, nil if it is over or another process'.
func (r *Registry) find(id string) *Nested {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[id]
}

// blocking returns the waits that block a lease, as far as they were registered.
func (r *Registry) blocking(lease string) []*Nested {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.leases[lease])
}

// describe returns what others are to know of the wait, without a View; nil if it is over, or blocks nothing any more.
func (n *Nested) describe() *Wait {
	ticket, pending := n.Call.State()
	if !pending {
		return nil
	}
	now := time.Now()
	w := &Wait{
		ID: n.id, Key: n.Request.Key, Mode: n.Request.Mode, Ticket: ticket, Detects: n.Request.Detect > 0,
		Owner: n.Request.Owner, Process: n.Process, Inbox: n.inbox(), Label: n.Request.Label,
		Waited: now.Sub(n.Began).Milliseconds(),
	}
	until := n.Until
	earlier := func(t time.Time) {
		if !t.IsZero() && (until.IsZero() || t.Before(until)) {
			until = t
		}
	}
	for _, h := range n.chain.Live() {
		earlier(h.Until)
		standing, ok := h.Hold.(core.StandingHold)
		if !ok {
			continue
		}
		s := standing.Standing()
		if s.Over {
			continue
		}
		earlier(s.Until) // and so does the context of the wait
		w.Since = s.Granted
		w.Held = append(w.Held, Held{Lease: s.Lease, Key: h.Key, Label: h.Label, For: now.Sub(s.Since).Milliseconds()})
	}
	w.Ends = !until.IsZero() && until.Sub(now) <= Soon
	if len(w.Held) == 0 {
		return nil
	}
	return w
}

func (w *Wait) blocks(lease string) bool {
	return slices.ContainsFunc(w.Held, func(h Held) bool { return h.Lease == lease })
}
