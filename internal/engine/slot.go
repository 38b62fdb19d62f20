package engine

import (
	"sync"
	"sync/atomic"

	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/script"
)

// A slot is what the locks in a slot of a Cluster have in common: one fencing counter, and one inbox if the Cluster has
// sharded channels. Elsewhere all locks are as in one slot.
type slot struct {
	inbox    *inbox.Inbox
	greatest atomic.Int64 // the greatest fencing token that this process has seen
	movedAt  atomic.Int64 // an instant: when it was seen to have moved to other replicas; 0: never
}

// slots are the slots of the locks that were used so far.
type slots struct {
	cluster bool
	only    *slot // if it is no Cluster

	bySlot sync.Map // in a Cluster: a *slot by the key of its fencing counter
}

func (s *slots) init(e *Engine, cluster bool) {
	if s.cluster = cluster; !cluster {
		s.only = &slot{inbox: e.inbox}
	}
}

// slotOf returns the slot of a lock.
func (e *Engine) slotOf(keys *script.KeySet) *slot {
	if !e.slots.cluster {
		return e.slots.only
	}
	fence := keys.Fence()
	if v, ok := e.slots.bySlot.Load(fence); ok {
		return v.(*slot)
	}
	v, _ := e.slots.bySlot.LoadOrStore(fence, &slot{inbox: e.inboxOf(keys)})
	return v.(*slot)
}

// noteToken notes a token that was granted.
func (s *slot) noteToken(token int64) {
	for seen := s.greatest.Load(); token > seen; seen = s.greatest.Load() {
		if s.greatest.CompareAndSwap(seen, token) {
			return
		}
	}
}

// inboxOf returns a new inbox for the slot of a lock, or the one for all.
func (e *Engine) inboxOf(keys *script.KeySet) *inbox.Inbox {
	if e.inbox != nil {
		return e.inbox
	}
	return inbox.New(e.layout.Inbox(e.process, keys))
}
