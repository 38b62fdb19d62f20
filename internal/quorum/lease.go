package quorum

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/localq"
)

// A lease is held by this process at a majority of the nodes. It is passed from hold to hold as long as there are tokens. Each
// node's engine renews its own part. The mutex of Locks guards it, except members and ends.
type lease struct {
	e        *entry
	terms    *core.Request                 // of the requests to nodes: of the caller for which it was acquired, as changed by Extend
	votes    []*vote                       // by node: a part of the lease, or a request to join it; nil: neither
	members  atomic.Pointer[[]*vote]       // the parts of the lease; some may have ended
	ends     atomic.Pointer[clock.Instant] // the end of a fixed lease, even if nodes that joined later hold it for longer
	final    atomic.Pointer[clock.Instant] // its deadline when it was released or lost; nil: it was not
	tokens   localq.Tokens                 // unused; the counters of k nodes have the last one
	passes   int                           // so far
	reported clock.Instant                 // the deadline in the last report to observers
	over     bool
	joined   time.Time // when nodes were last asked to join

	extensions []*extension // in progress
}

// newLease begins a lease that consists of the votes in have, and gives it to a waiter. Other nodes that were asked may join
// later.
func newLease(e *entry, lead *localq.Waiter, tokens choice, have, all []*vote) {
	l := &lease{e: e, terms: lead.Req, votes: all, tokens: localq.NewTokens(tokens.first, tokens.last), joined: time.Now()}
	members := make([]*vote, 0, len(all))
	for _, v := range have {
		if !e.l.cfg.Tokens || v.counter >= l.tokens.Last() {
			members = append(members, v)
		}
	}
	l.members.Store(&members)
	for i, v := range all {
		if v == nil {
			continue
		}
		v.lease = l
		if v.state == refused || v.state == failed || v.state == granted && !v.counts() {
			all[i] = nil
		}
	}
	e.lease = l
	e.l.leases[l] = struct{}{}
	l.reported = l.deadline()
	l.fix(l.reported)
	for _, v := range all { // nodes whose counters are below the tokens
		if v.is(granted) && !l.has(v) {
			l.onVote(v)
		}
	}
	e.give(l, lead)
	for _, v := range *l.members.Load() {
		l.show(v)
	}
	e.l.watch()
	if l.isMissing() {
		e.l.prober.keepRunning(e.l)
	}
	if e.waiters.Len == 0 {
		return
	}
	holders := l.describe()
	e.failAll(localq.Busy(holders), (*localq.Waiter).OnlyTries)
	e.notify(core.Wait{Holders: holders})
}

func (l *lease) has(v *vote) bool { return slices.Contains(*l.members.Load(), v) }

// fix sets the end of a fixed lease.
func (l *lease) fix(ends clock.Instant) {
	if l.terms.Fixed {
		l.ends.Store(&ends)
	}
}

// isMissing reports whether some nodes are not part of the lease.
func (l *lease) isMissing() bool {
	return count(*l.members.Load(), func(v *vote) bool { return !v.isLost() }) < len(l.e.l.nodes)
}

// deadline returns the instant until which enough nodes count. It needs no mutex. After a release or a loss it stays as it was
// then: giving up nodes must not make the lease look expired.
func (l *lease) deadline() clock.Instant {
	if final := l.final.Load(); final != nil {
		return *final
	}
	until := kthDeadline(*l.members.Load(), l.e.l.cfg.Quorum)
	if ends := l.ends.Load(); ends != nil && ends.Before(until) {
		return *ends
	}
	return until
}

// counting returns how many nodes count.
func (l *lease) counting() int { return count(*l.members.Load(), (*vote).counts) }

// isContended reports whether another process is known to wait.
func (l *lease) isContended() bool {
	return slices.ContainsFunc(*l.members.Load(), func(v *vote) bool { return !v.isLost() && v.hold.IsContended() })
}

// onLost handles a node that no longer counts. It returns a callback to be called without the mutex; nil: none.
func (l *lease) onLost(cause error) (notify func()) {
	if l.over || l.counting() >= l.e.l.cfg.Quorum {
		l.join(time.Now())
		l.e.l.prober.keepRunning(l.e.l) // to ask again if joining fails
		return nil
	}
	cfg := l.e.l.cfg
	return l.lose(fmt.Errorf("%w: held at %d of %d nodes, %d required", lossOf(cause), l.counting(), len(l.e.l.nodes), cfg.Quorum))
}

// lossOf returns cause if it is a loss; otherwise it wraps cause in one.
func lossOf(cause error) error {
	if core.IsLoss(cause) {
		return cause
	}
	return fmt.Errorf("%w: %w", core.ErrLost, cause)
}

// lose ends the lease and its hold. It returns the callback that reports the loss to the holder.
func (l *lease) lose(cause error) (notify func()) {
	h := l.e.holder.Load()
	e := l.e
	l.detach()
	drop(l.votes)
	if h != nil && !h.Over {
		h.end(cause)
		notify = func() { h.Req.Events.Lost(cause) }
	}
	e.start()
	return notify
}

// detach removes the lease from the tables.
func (l *lease) detach() {
	final := l.deadline()
	l.final.Store(&final)
	l.over = true
	l.stepExtensions()
	delete(l.e.l.leases, l)
	if l.e.lease == l {
		l.e.lease = nil
	}
}

// onRenewed handles the renewal at a node. It returns the callback that reports it to the holder; nil: none.
func (l *lease) onRenewed(err error) (notify func()) {
	h := l.e.holder.Load()
	if l.over || h == nil || h.Over {
		return nil
	}
	if err == nil {
		if d := l.deadline(); l.reported.Before(d) {
			l.reported = d
			return func() { h.Req.Events.Renewed(nil) }
		}
		return nil
	}
	if count(*l.members.Load(), func(v *vote) bool { return v.counts() && !v.failing }) >= l.e.l.cfg.Quorum {
		return nil
	}
	return func() { h.Req.Events.Renewed(err) }
}

// describe describes the holder in this process.
func (l *lease) describe() []core.Holder {
	h := l.e.holder.Load()
	if h == nil {
		return nil
	}
	now, at := clock.Both()
	return []core.Holder{h.Describe(l.e.l.process(), l.deadline().Sub(at), now, at)}
}

// minFresh is the time that must be left of a lease to pass it on, unless half of the lease is less.
const minFresh = 1500 * time.Millisecond

// tokensWanted returns how many tokens a bid wants: one for the hold, and one for each pass within the process. The block
// doubles each time while no other process wants the lock.
func (e *entry) tokensWanted() int {
	if e.waiters.Len <= 1 || e.contended {
		e.block = 0
		return 1
	}
	if b := e.bid; b == nil || b.tokens == 0 {
		e.block = localq.NextBlock(e.block, e.waiters.Len)
		if b != nil {
			b.tokens = 1 + e.block
		}
		return 1 + e.block
	}
	return e.bid.tokens
}

// passOn gives the lease of h to the next waiter of this process, without a command, and reports whether it did. It needs a
// token and enough time left on the lease, and no other process may be known to wait.
func (h *hold) passOn() bool {
	l := h.lease
	w := l.e.waiters.Leader()
	switch {
	case w == nil, l.tokens.IsEmpty(), l.passes >= localq.MaxBlock:
		return false
	case !localq.MayFollow(l.terms, l.terms.Lease, w.Req): // it may have been extended
		return false
	case clock.Until(l.deadline()) < min(h.Req.Lease/2, minFresh), l.isContended():
		return false
	}
	l.passes++
	h.end(nil)
	l.e.give(l, w)
	return true
}
