package engine

import (
	"hash/maphash"
	"slices"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
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
	latest   *lease // nil: it is over
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
		c = new(cohort) // the first one may be over, and something of it be on its way
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

// removeLease notes that a lease is over.
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
