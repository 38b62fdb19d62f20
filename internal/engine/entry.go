package engine

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/script"
)

// An entry is the state of one key in this process. It exists while one of its cohorts is used. The shard's mutex guards it.
type entry struct {
	e     *Engine
	shard *shard
	key   string
	keys  script.KeySet
	slot  *slot

	cohorts list.List[*cohort]
	n       int     // how many there are
	plain   *cohort // of the plain lock; nil: none
	first   cohort  // room for the first one, which most entries have alone

	waits    int    // how many callers wait
	known    int    // how many leases there are, and requests that are known to be queued
	latest   *lease // nil: it has ended
	greatest int64  // the greatest token of the key since there has been an entry
	*rest           // nil: not needed so far
}

// The rest is what only some entries need.
type rest struct {
	readers       []readers
	queuedPermits int      // how many requests for permits are known to be queued
	scout         *request // the one of these that polls when a permit may end; nil: none
	doubt         doubt    // about a holder of this process
}

// Readers are a cohort that shares a lease, because they have the same terms.
type readers struct {
	*cohort
	lease, most time.Duration
}

// A kind says which callers are one cohort.
type kind int8

const (
	passing kind = iota // all of the plain lock: they pass a lease on
	sharing             // readers with the same terms: they share a lease
	alone               // one caller, whose place in the queue is its own
	permit              // one caller, who wants a permit
)

func cohortKind(r *core.Request) kind {
	switch {
	case r.Mode == core.Exclusive && r.Vote == nil:
		return passing
	case r.Mode == core.Read && !r.Fixed && r.MinHold == 0:
		return sharing
	case r.Mode == core.Permit:
		return permit
	}
	return alone
}

// lockCohort returns the cohort that r belongs to, and makes it if there is none. The shard is locked.
func (e *Engine) lockCohort(r *core.Request) *cohort {
	sh := e.shardOf(r.Key)
	sh.mu.Lock()
	n := sh.entries[r.Key]
	if n == nil {
		n = &entry{e: e, shard: sh, key: r.Key, keys: e.layout.KeySet(r.Key)}
		n.slot = e.slotOf(&n.keys)
		if sh.entries == nil {
			sh.entries = make(map[string]*entry)
		}
		sh.entries[r.Key] = n
	}
	return n.cohortOf(r)
}

// cohortOf returns the cohort that r belongs to, and makes it if there is none.
func (n *entry) cohortOf(r *core.Request) *cohort {
	k := cohortKind(r)
	switch k {
	case passing:
		if n.plain != nil {
			return n.plain
		}
	case sharing:
		for _, c := range n.more().readers {
			if c.lease == r.Lease && c.most == r.MaxHold {
				return c.cohort
			}
		}
	}
	c := &n.first
	if c.entry != nil {
		c = new(cohort) // the first one may have ended, and something of it be on its way
	}
	c.entry, c.kind = n, k
	n.cohorts.Push(c)
	n.n++
	switch k {
	case passing:
		n.plain = c
	case sharing:
		n.readers = append(n.readers, readers{c, r.Lease, r.MaxHold})
	case permit:
		n.more()
	}
	return c
}

// more returns the rest, and makes it if there is none.
func (n *entry) more() *rest {
	if n.rest == nil {
		n.rest = new(rest)
	}
	return n.rest
}

// sharers returns the cohorts of readers.
func (n *entry) sharers() []readers {
	if n.rest == nil {
		return nil
	}
	return n.readers
}

// remove takes a cohort off, and the entry off its shard with the last one.
func (n *entry) remove(c *cohort) {
	n.cohorts.Remove(c)
	n.n--
	switch c.kind {
	case passing:
		n.plain = nil
	case sharing:
		n.readers = slices.DeleteFunc(n.readers, func(other readers) bool { return other.cohort == c })
	}
	if n.n == 0 {
		delete(n.shard.entries, n.key)
	}
}

// addLease notes that there is one more lease.
func (n *entry) addLease(l *lease) {
	n.known++
	n.latest = l
}

// removeLease notes that a lease has ended.
func (n *entry) removeLease(l *lease) {
	n.known--
	if n.latest == l {
		n.latest = nil
	}
}

// waiting returns how many callers wait for the key. It does not count callers that may get the lock at
// once: readers and one other caller, as long as no answer of the server says otherwise.
func (c *cohort) waiting() int {
	if c.kind == permit {
		return c.queuedPermits // the others may be granted one each
	}
	waiting := c.waits
	for _, readers := range c.sharers() {
		if readers.willBeAdmitted() {
			waiting -= readers.waiters.Len
		}
	}
	known := c.known > 0 || c.kind == passing && c.request == nil
	if !known && waiting > 0 {
		waiting--
	}
	return waiting
}

// willBeAdmitted reports whether the next answer admits the waiting readers, as far as it is known.
func (c *cohort) willBeAdmitted() bool {
	if c.lease != nil {
		return !c.lease.contended
	}
	return c.request != nil && !c.request.queued
}

// stopSharingReaders stops readers of this process from sharing their leases, because a writer waits.
func (n *entry) stopSharingReaders() {
	for _, c := range n.sharers() {
		if l := c.cohort.lease; l != nil {
			l.contendedAt = clock.Now()
			l.setContended(true)
		}
	}
}

// localHold returns a hold of the key by this Client, nil if none is known.
func (e *Engine) localHold(key string) *core.LocalHold {
	sh := e.shardOf(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := sh.entries[key]
	if n == nil || n.latest == nil || n.latest.holds.IsEmpty() {
		return nil
	}
	local := n.latest.holds.First().Local()
	return &local
}

func (e *Engine) shardOf(key string) *shard {
	return &e.shards[maphash.String(e.seed, key)%uint64(len(e.shards))]
}

func (e *Engine) eachCohort(f func(*cohort)) {
	for i := range e.shards {
		sh := &e.shards[i]
		sh.mu.Lock()
		for _, n := range sh.entries {
			for c := range n.cohorts.All() {
				f(c)
			}
		}
		sh.mu.Unlock()
	}
}

// An idTable finds the *request or *lease of an id.
type idTable struct {
	mu sync.Mutex
	m  map[uint64]any
}

func (t *idTable) set(id *script.ID, v any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = make(map[uint64]any)
	}
	t.m[id.Number()] = v
}

func (t *idTable) remove(id *script.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, id.Number())
}

func (t *idTable) isEmpty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.m) == 0
}

func (t *idTable) find(n uint64) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m[n]
}

// leases returns all leases.
func (t *idTable) leases() []*lease { return listOf[*lease](t) }

// requests returns all requests that are not granted yet.
func (t *idTable) requests() []*request { return listOf[*request](t) }

func listOf[T any](t *idTable) (list []T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.m {
		if v, ok := v.(T); ok {
			list = append(list, v)
		}
	}
	return list
}

// inUse returns the numbers of the requests and leases of each key.
func (t *idTable) inUse() map[lockKey][]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[lockKey][]uint64)
	for n, v := range t.m {
		k := lockKeyOf(v)
		all[k] = append(all[k], n)
	}
	return all
}

// of returns the requests and leases of a key.
func (t *idTable) of(k lockKey) (all []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, v := range t.m {
		if lockKeyOf(v) == k {
			all = append(all, v)
		}
	}
	return all
}

// lockKeyOf returns the key of a *request or *lease.
func lockKeyOf(v any) lockKey {
	switch v := v.(type) {
	case *request:
		return v.c.lockKey()
	case *lease:
		return v.c.lockKey()
	}
	return lockKey{}
}

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
