package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// A hold is one caller's turn with a lease. It implements core.Hold. The mutex of Locks guards what changes.
type hold struct {
	lease *lease
	req   *core.Request
	token int64
	since time.Time
	limit clock.Instant // the end of the maximum hold; zero: none
	timer *clock.Timer  // ends it then

	keep      time.Time // the key stays taken until then; zero: no longer than MinHold says
	over      bool
	lost      error
	forgotten bool
	abandoned bool // its caller gave up before it knew of the hold
}

// give gives the lease to a waiter, with the next token.
func (e *entry) give(l *lease, w *waiter) {
	h := &hold{lease: l, req: w.req, since: time.Now()}
	if e.l.cfg.Tokens {
		h.token = l.next
	}
	l.next++
	if most := w.req.MaxHold; most > 0 {
		h.limit = clock.Now().Add(most)
		h.timer = clock.AfterFunc(most, h.onLimit)
	}
	e.l.holds++
	e.holder.Store(h)
	e.finish(w, h, nil)
}

// onLimit ends a hold whose maximum is over.
func (h *hold) onLimit() {
	l := h.lease.e.l
	l.mu.Lock()
	if h.over || h.lease.over {
		l.mu.Unlock()
		return
	}
	tell := h.lease.lose(errMaxHold)
	l.mu.Unlock()
	if tell != nil {
		tell()
	}
}

var errMaxHold = fmt.Errorf("%w: its maximum hold is over", core.ErrLost)

// end ends the hold on this side. lost is nil if it was released.
func (h *hold) end(lost error) {
	if h.timer != nil {
		h.timer.Stop()
	}
	h.over, h.lost = true, lost
	h.lease.e.holder.CompareAndSwap(h, nil)
	h.lease.e.l.holdEnded()
}

// process is how an operator recognises this process: by its name at the first node.
func (l *Locks) process() string { return l.nodes[0].engine.Process() }

// Token implements core.Hold.
func (h *hold) Token() int64 { return h.token }

// Deadline implements core.Hold.
func (h *hold) Deadline() clock.Instant {
	d := h.lease.deadline()
	if !h.limit.IsZero() && h.limit.Before(d) {
		return h.limit
	}
	return d
}

// Expired implements core.Hold.
func (h *hold) Expired() bool { return clock.Until(h.Deadline()) <= 0 }

// ended returns how the hold has ended, or nil while it goes on.
func (h *hold) ended() error {
	if !h.over {
		return nil
	}
	return cmp.Or(h.lost, core.ErrNotHeld)
}

// Downgrade implements core.Hold: there are no readers.
func (h *hold) Downgrade(context.Context) error { return errors.ErrUnsupported }

// KeepTaken implements core.Hold.
func (h *hold) KeepTaken(d time.Duration) {
	l := h.lease.e.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(d); until.After(h.keep) {
		h.keep = until
	}
}

// rest returns for how long from now the key stays taken after a release.
func (h *hold) rest() time.Duration {
	if h.abandoned {
		return 0
	}
	return max(time.Until(h.since.Add(h.req.MinHold)), time.Until(h.keep))
}

// isForgotten reports whether nobody can release the hold any more. It needs no mutex.
func (h *hold) isForgotten() bool { return h.req.Events.IsForgotten() }

// onForgotten notes that the hold is not renewed any more. It returns what tells that; nil if it is known.
func (h *hold) onForgotten() (tell func()) {
	if h.over || h.forgotten {
		return nil
	}
	h.forgotten = true
	ends := h.Deadline().Time()
	return func() {
		h.req.Events.Forgotten(core.LocalHold{Request: h.req, Token: h.token, Since: h.since}, ends)
	}
}
