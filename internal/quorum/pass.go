package quorum

import (
	"time"

	"github.com/lockmw/go/internal/clock"
)

const (
	minBlock  = 64
	maxBlock  = 4096 // passes within the process that have tokens at most
	maxPasses = maxBlock
	minFresh  = 1500 * time.Millisecond
)

// tokensWanted returns how many tokens an attempt wants: one for the hold, and one for each pass within the process. The
// block doubles each time while nobody else wants the lock.
func (e *entry) tokensWanted() int {
	if e.n <= 1 || e.contended {
		e.block = 0
		return 1
	}
	if a := e.attempt; a == nil || a.tokens == 0 {
		e.block = min(max(minBlock, 2*e.n, 2*e.block), maxBlock)
		if a != nil {
			a.tokens = 1 + e.block
		}
		return 1 + e.block
	}
	return e.attempt.tokens
}

// passOn gives the lease of h to the next waiter of this process, without a command, and reports whether it does: as long as
// there are tokens, enough is left of the lease, and nobody else is known to wait.
func (h *hold) passOn() bool {
	l := h.lease
	w := l.e.leader()
	switch {
	case w == nil, l.next > l.last, l.passes >= maxPasses:
		return false
	case l.terms.Fixed, w.req.Fixed, l.terms.Lease != w.req.Lease: // it may have been extended
		return false
	case clock.Until(l.deadline()) < min(h.req.Lease/2, minFresh), l.isContended():
		return false
	}
	l.passes++
	h.end(nil)
	l.e.give(l, w)
	return true
}
