package engine

import (
	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
)

// A server that has lost its latest writes may have a hold of this process again that has ended, and name it as the holder
// when a call asks for the lock. The process may have noticed nothing else. Nobody but this process can tell that the hold is
// over, so it has the server end what it has of this process at the key (rule 13 of docs/protocol.md).

// A doubt is about a holder that an answer has named, of this process, which does not know it. A grant may be on its way.
type doubt struct {
	token int64
	at    clock.Instant // when the answer came
}

// disownOld deals with the holders that an answer names, to a run for r that was sent at that time. If one is of this
// process, and over, it has the server end that, and reports that it does. then is called afterwards.
func (r *request) disownOld(sent clock.Instant, holders []core.Holder, then func()) bool {
	c, e := r.c, r.c.e
	token := c.namedHere(holders)
	if token == 0 || c.shard.released.endedAfter(c.lockKey(), sent) {
		return false // the answer may be older than the end of the hold
	}
	if c.n > 1 && !c.doubts(token, sent) {
		return false
	}
	known := e.ids.of(c.lockKey())
	if !showsOldHold(known, holders, e.process) {
		return false
	}
	inUse := make([]uint64, len(known))
	for i, v := range known {
		inUse[i] = numberOf(v)
	}
	upTo := e.lastID.Load()                               // ids of this key are made with the shard locked
	c.shard.released.note(c.lockKey(), upTo, clock.Now()) // other calls need not do the same
	e.disown(c.lockKey(), upTo, inUse, then)
	return true
}

// namedHere returns the token of a holder of this process that is not the latest lease of the key; 0: there is none.
func (c *cohort) namedHere(holders []core.Holder) int64 {
	for i := range holders {
		h := &holders[i]
		if h.Process == c.e.process && !h.Lingers && !c.hasLatest(h.Token) {
			return h.Token
		}
	}
	return 0
}

// hasLatest reports whether the latest lease began with that token.
func (n *entry) hasLatest(token int64) bool { return n.latest != nil && n.latest.first == token }

// doubts notes that an answer names a holder of this process, and reports whether one before has, long enough ago for
// a grant to arrive.
func (n *entry) doubts(token int64, sent clock.Instant) bool {
	more := n.more()
	if more.doubt.token == token {
		return sent.Sub(more.doubt.at) >= inbox.LateMessage
	}
	more.doubt = doubt{token, clock.Now()}
	return false
}

// showsOldHold reports whether holders has more holds of a process with the same token than it knows: it has these requests
// and leases of the key. A lease that nobody can share is the only hold: if the server names another one, the next renewal
// of the lease says which.
func showsOldHold(known []any, holders []core.Holder, process string) bool {
	leases := make(map[int64]int)
	for _, v := range known {
		l, ok := v.(*lease)
		if !ok {
			continue
		}
		if !l.isRead() && !l.c.isPermit() {
			return false
		}
		leases[l.first]++
	}
	for i := range holders {
		if h := &holders[i]; h.Process == process && !h.Lingers {
			leases[h.Token]--
			if leases[h.Token] < 0 {
				return true
			}
		}
	}
	return false
}

// numberOf returns the number of the id of a *request or *lease.
func numberOf(v any) uint64 {
	if r, ok := v.(*request); ok {
		return r.id.Number()
	}
	return v.(*lease).id.Number()
}
