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

// A lease is what most of the nodes have granted to this process. It is passed from hold to hold as long as there are
// tokens. Each node's engine renews its own part. The mutex of Locks guards it, but for members and ends.
type lease struct {
	e       *entry
	terms   *core.Request                 // what nodes are asked for: of the caller that it was taken for, or as it was extended
	votes   []*vote                       // by node: part of it, or to join it; nil: neither
	members atomic.Pointer[[]*vote]       // those that are part of it, and may be over
	ends    atomic.Pointer[clock.Instant] // of a fixed lease: when it ends, even if nodes that joined later have it for longer
	final   atomic.Pointer[clock.Instant] // the deadline that it had when it was released or lost; nil: it was not
	tokens  localq.Tokens                 // not used yet; k nodes know the last one
	passes  int                           // so far
	told    clock.Instant                 // the deadline that observers know of
	over    bool
	joined  time.Time // when nodes were last asked to join

	extensions []*extension // that are under way
}

// newLease begins a lease that the nodes in have make up, and gives it to a waiter. Others that were asked may join later.
func newLease(e *entry, lead *localq.Waiter, tokens choice, have, all []*vote) {
	l := &lease{e: e, terms: lead.Req, votes: all, tokens: localq.NewTokens(tokens.first, tokens.last), joined: time.Now()}
	members := make([]*vote, 0, len(all))
	for _, v := range have {
		if !e.l.cfg.Tokens || v.knows >= l.tokens.Last() {
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
	l.told = l.deadline()
	l.fix(l.told)
	for _, v := range all { // nodes that do not know the tokens yet
		if v != nil && v.state == granted && !l.has(v) {
			l.onVote(v)
		}
	}
	e.give(l, lead)
	for _, v := range *l.members.Load() {
		l.show(v)
	}
	e.l.watch()
	if l.isMissing() {
		e.l.prober.want(e.l)
	}
	if e.waiters.Len == 0 {
		return
	}
	holders := l.describe()
	e.failAll(localq.Busy(holders), (*localq.Waiter).Tries)
	e.notify(core.Wait{Holders: holders})
}

func (l *lease) has(v *vote) bool { return slices.Contains(*l.members.Load(), v) }

// fix sets when a fixed lease ends.
func (l *lease) fix(ends clock.Instant) {
	if l.terms.Fixed {
		l.ends.Store(&ends)
	}
}

// isMissing reports whether there are nodes that are no part of the lease.
func (l *lease) isMissing() bool {
	n := 0
	for _, m := range *l.members.Load() {
		if !m.isLost() {
			n++
		}
	}
	return n < len(l.e.l.nodes)
}

// deadline returns until when enough nodes count. It needs no mutex. That nodes are given up at its end is no reason to take the
// lease for one that ran out.
func (l *lease) deadline() clock.Instant {
	if final := l.final.Load(); final != nil {
		return *final
	}
	var room [16]clock.Instant
	times := room[:0]
	for _, v := range *l.members.Load() {
		times = append(times, v.deadline())
	}
	until := kthLatest(times, l.e.l.cfg.Quorum)
	if ends := l.ends.Load(); ends != nil && ends.Before(until) {
		return *ends
	}
	return until
}

// counting returns how many nodes count.
func (l *lease) counting() (n int) {
	for _, v := range *l.members.Load() {
		if v.counts() {
			n++
		}
	}
	return n
}

// isContended reports whether somebody else is known to wait.
func (l *lease) isContended() bool {
	for _, v := range *l.members.Load() {
		if !v.isLost() && v.hold.IsContended() {
			return true
		}
	}
	return false
}

// onLost deals with a node that does not count any more. It returns what is to be called without the mutex; nil: nothing.
func (l *lease) onLost(cause error) (tell func()) {
	if l.over || l.counting() >= l.e.l.cfg.Quorum {
		l.join(time.Now())
		l.e.l.prober.want(l.e.l) // to ask again if that fails
		return nil
	}
	cfg := l.e.l.cfg
	return l.lose(fmt.Errorf("%w: it counts at %d of %d nodes, of %d that it needs", lossOf(cause), l.counting(), len(l.e.l.nodes), cfg.Quorum))
}

// lossOf is cause if that is a loss; another error becomes one.
func lossOf(cause error) error {
	if core.IsLoss(cause) {
		return cause
	}
	return fmt.Errorf("%w: %w", core.ErrLost, cause)
}

// lose ends the lease and its hold. It returns what tells the holder.
func (l *lease) lose(cause error) (tell func()) {
	h := l.e.holder.Load()
	e := l.e
	l.detach()
	drop(l.votes)
	if h != nil && !h.Over {
		h.end(cause)
		tell = func() { h.Req.Events.Lost(cause) }
	}
	e.start()
	return tell
}

// detach takes the lease off the tables.
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

// onRenewed deals with the renewal of a node. It returns what tells the holder; nil: nothing.
func (l *lease) onRenewed(err error) (tell func()) {
	h := l.e.holder.Load()
	if l.over || h == nil || h.Over {
		return nil
	}
	if err == nil {
		if d := l.deadline(); l.told.Before(d) {
			l.told = d
			return func() { h.Req.Events.Renewed(nil) }
		}
		return nil
	}
	well := 0
	for _, v := range *l.members.Load() {
		if v.counts() && !v.failing {
			well++
		}
	}
	if well >= l.e.l.cfg.Quorum {
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

// minFresh is how much has to be left at most of a lease that is passed on.
const minFresh = 1500 * time.Millisecond

// tokensWanted returns how many tokens a bid wants: one for the hold, and one for each pass within the process. The
// block doubles each time while nobody else wants the lock.
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

// passOn gives the lease of h to the next waiter of this process, without a command, and reports whether it does: as long as
// there are tokens, enough is left of the lease, and nobody else is known to wait.
func (h *hold) passOn() bool {
	l := h.lease
	w := l.e.waiters.Leader()
	switch {
	case w == nil, l.tokens.AreUsed(), l.passes >= localq.MaxBlock:
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
