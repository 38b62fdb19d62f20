package quorum

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/localq"
)

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
