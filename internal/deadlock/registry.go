package deadlock

import (
	"crypto/rand"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/core"
)

const (
	// ShortWait is the time within which a wait must end by itself to count as continuing.
	ShortWait = 2 * time.Second
	// CheckInterval is the interval between checks of a wait.
	CheckInterval = 10 * time.Second
)

// A NestedWait is a wait of this process whose context has holds. Its fields do not change after Begin, except the atomic ones.
type NestedWait struct {
	Waits   *Registry
	Request *core.Request
	Began   time.Time
	Until   time.Time // when the wait ends by itself; zero: never
	Process string
	Site    Site
	Call    Call
	// Wake schedules a call of Check for the wait.
	Wake func(after time.Duration)

	// Found receives the deadlock for which the wait is to end. It has room for one.
	Found chan *core.DeadlockError

	id      string
	chain   core.Chain
	leases  []string    // of its context at the beginning; it gets no others
	due     atomic.Bool // a check is scheduled
	retried atomic.Bool // it was checked once more after something had changed
}

// A Call is a call that waits.
type Call interface {
	// State returns the ticket with which the call waits, or "", and whether it waits.
	State() (ticket string, waits bool)
}

// A Registry has the nested waits of a process.
type Registry struct {
	last atomic.Uint64 // the number of the last id
	stem string

	mu     sync.Mutex
	ids    map[string]*NestedWait
	leases map[string][]*NestedWait // waits by the leases that they block
}

// NewRegistry returns an empty Registry.
func NewRegistry() *Registry {
	return &Registry{ids: make(map[string]*NestedWait), leases: make(map[string][]*NestedWait), stem: rand.Text() + "."}
}

// Shared is the Registry of this process, for all its Clients, because a deadlock may involve several. Tests have registries of
// their own to act as several processes.
var Shared = NewRegistry()

// NewID returns a new id, unique over all processes.
func (r *Registry) NewID() string { return r.stem + strconv.FormatUint(r.last.Add(1), 36) }

// Begin registers a wait. It returns false, and registers nothing, if no other call can wait for a hold of the context.
func (n *NestedWait) Begin(chain core.Chain) bool {
	for _, h := range chain.Live() {
		if s, ok := h.Hold.(core.BlockingHold); ok {
			if lease := s.State().Lease; !slices.Contains(n.leases, lease) {
				n.leases = append(n.leases, lease)
			}
		}
	}
	if len(n.leases) == 0 {
		return false
	}
	r := n.Waits
	n.id, n.chain, n.Found = r.NewID(), chain, make(chan *core.DeadlockError, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids[n.id] = n
	for _, lease := range n.leases {
		r.leases[lease] = append(r.leases[lease], n)
	}
	return true
}

// End removes the wait from the registry.
func (n *NestedWait) End() {
	r := n.Waits
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ids, n.id)
	for _, lease := range n.leases {
		left := slices.DeleteFunc(r.leases[lease], func(other *NestedWait) bool { return other == n })
		if len(left) == 0 {
			delete(r.leases, lease)
		} else {
			r.leases[lease] = left
		}
	}
}

// EachHold calls f for the holds of the wait's context.
func (n *NestedWait) EachHold(f func(core.Hold)) {
	for _, h := range n.chain.Live() {
		f(h.Hold)
	}
}

// inbox returns the inbox for answers. The process listens to it because of the wait.
func (n *NestedWait) inbox() string { return n.Site.Inbox(n.Request.Key) }

// Len returns the number of registered waits, and of the leases that they block.
func (r *Registry) Len() (waits, leases int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids), len(r.leases)
}

// find returns the wait with an id, or nil if the wait has ended or belongs to another process.
func (r *Registry) find(id string) *NestedWait {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ids[id]
}

// blocking returns the registered waits that block a lease.
func (r *Registry) blocking(lease string) []*NestedWait {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.leases[lease])
}

// describe describes the wait to others, without a View. It returns nil if the wait has ended or blocks nothing any more.
func (n *NestedWait) describe() *Wait {
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
	for _, h := range n.chain.Live() {
		until = core.Earlier(until, h.Until)
		blocking, ok := h.Hold.(core.BlockingHold)
		if !ok {
			continue
		}
		s := blocking.State()
		if s.Over {
			continue
		}
		until = core.Earlier(until, s.Until) // the context of the wait then ends as well
		w.Since = s.Granted
		w.Held = append(w.Held, Held{Lease: s.Lease, Key: h.Key, Label: h.Label, For: now.Sub(s.Since).Milliseconds()})
	}
	w.Ends = !until.IsZero() && until.Sub(now) <= ShortWait
	if len(w.Held) == 0 {
		return nil
	}
	return w
}

func (w *Wait) blocks(lease string) bool {
	return slices.ContainsFunc(w.Held, func(h Held) bool { return h.Lease == lease })
}
