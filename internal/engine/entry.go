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

// An entry is the state of one key in this process. It exists while one of its cohorts is in use. The shard's mutex guards it.
type entry struct {
	e     *Engine
	shard *shard
	key   string
	keys  script.KeySet
	slot  *slot

	cohorts list.List[*cohort]
	n       int     // the number of cohorts
	plain   *cohort // the cohort of the plain lock; nil: none
	first   cohort  // memory for the first cohort, which is the only one of most entries

	waits      int    // callers that wait
	known      int    // leases, and requests that are known to be queued
	latest     *lease // the latest lease; nil once it has ended
	greatest   int64  // the greatest token of the key that this entry has seen
	*rareState        // nil until needed
}

// The rareState is state that only some entries need.
type rareState struct {
	readers       []readers
	queuedPermits int      // requests for permits that are known to be queued
	scout         *request // the queued permit request that polls when a permit may end; nil: none
	doubt         doubt    // about a holder of this process
}

// Readers are a cohort that shares a lease because its callers have the same terms.
type readers struct {
	*cohort
	lease, most time.Duration
}

// A kind says which callers form a cohort.
type kind int8

const (
	passing kind = iota // callers of the plain lock, who pass a lease on
	sharing             // readers with the same terms, who share a lease
	alone               // one caller with its own place in the queue
	permit              // one caller of a semaphore
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

// lockCohort returns the cohort of r, which it creates if necessary. The shard is locked on return.
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

// cohortOf returns the cohort of r, which it creates if necessary.
func (n *entry) cohortOf(r *core.Request) *cohort {
	k := cohortKind(r)
	switch k {
	case passing:
		if n.plain != nil {
			return n.plain
		}
	case sharing:
		for _, c := range n.ensureRareState().readers {
			if c.lease == r.Lease && c.most == r.MaxHold {
				return c.cohort
			}
		}
	}
	c := &n.first
	if c.entry != nil {
		c = new(cohort) // a call of an ended first cohort may still be in flight
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
		n.ensureRareState()
	}
	return c
}

// ensureRareState returns the rare state, which it creates if necessary.
func (n *entry) ensureRareState() *rareState {
	if n.rareState == nil {
		n.rareState = new(rareState)
	}
	return n.rareState
}

// sharers returns the cohorts of readers.
func (n *entry) sharers() []readers {
	if n.rareState == nil {
		return nil
	}
	return n.readers
}

// remove removes a cohort, and with the last cohort the entry.
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

// waiting returns how many callers wait for the key. It does not count callers that may get the lock immediately: readers and one
// other caller, unless an answer of the server says that they have to wait.
func (c *cohort) waiting() int {
	if c.kind == permit {
		return c.queuedPermits // the others may each be granted a permit
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

// willBeAdmitted reports whether the next answer is expected to admit the waiting readers.
func (c *cohort) willBeAdmitted() bool {
	if c.lease != nil {
		return !c.lease.contended
	}
	return c.request != nil && !c.request.queued
}

// stopSharingReaders stops the readers of this process from sharing their leases, because a writer waits.
func (n *entry) stopSharingReaders() {
	for _, c := range n.sharers() {
		if l := c.cohort.lease; l != nil {
			l.contendedAt = clock.Now()
			l.setContended(true)
		}
	}
}

// localHold returns a hold of the key by this Client, or nil if none is known.
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

// requests returns all requests that have not been granted.
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

// of returns the requests and leases of a key, by the numbers of their ids.
func (t *idTable) of(k lockKey) map[uint64]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[uint64]any)
	for n, v := range t.m {
		if lockKeyOf(v) == k {
			all[n] = v
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

// A slot is what the locks in one slot share: a fencing counter and an inbox. If the servers have no slots, all locks share one.
type slot struct {
	inbox    *inbox.Inbox
	greatest atomic.Int64 // the greatest fencing token that this process has seen
	movedAt  atomic.Int64 // the instant when the slot was seen to have moved to other replicas; 0: never
}

// slotOf returns the slot of a lock.
func (e *Engine) slotOf(keys *script.KeySet) *slot {
	if e.onlySlot != nil {
		return e.onlySlot
	}
	fence := keys.Fence()
	if v, ok := e.slots.Load(fence); ok {
		return v.(*slot)
	}
	v, _ := e.slots.LoadOrStore(fence, &slot{inbox: inbox.New(e.layout.Inbox(e.process, keys))})
	return v.(*slot)
}

// noteToken records a granted token.
func (s *slot) noteToken(token int64) {
	for seen := s.greatest.Load(); token > seen; seen = s.greatest.Load() {
		if s.greatest.CompareAndSwap(seen, token) {
			return
		}
	}
}
