package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/localq"
)

// A hold is one caller's turn with a lease. It implements core.Hold. The mutex of Locks guards its mutable state.
type hold struct {
	localq.Hold
	lease *lease
	timer *clock.Timer // ends the hold after its maximum; nil: it has none
}

// give gives the lease to a waiter, with the next token.
func (e *entry) give(l *lease, w *localq.Waiter) {
	token := l.tokens.Take()
	if !e.l.cfg.Tokens {
		token = 0
	}
	h := &hold{Hold: localq.NewHold(w.Req, token, clock.Now()), lease: l}
	if most := w.Req.MaxHold; most > 0 {
		h.timer = clock.AfterFunc(most, h.onLimit)
	}
	e.l.holds.Begin()
	e.holder.Store(h)
	e.finish(w, h, nil)
}

// onLimit ends a hold whose maximum has passed.
func (h *hold) onLimit() {
	l := h.lease.e.l
	l.mu.Lock()
	if h.Over || h.lease.over {
		l.mu.Unlock()
		return
	}
	notify := h.lease.lose(h.expiryLoss())
	l.unlockAndNotify(notify)
}

// expiryLoss returns the loss of a hold whose time has expired.
func (h *hold) expiryLoss() error {
	return h.ExpiryLoss(clock.Now(), "its lease expired without a renewal at enough nodes")
}

// end ends the hold in this process. lost is nil if it was released.
func (h *hold) end(lost error) {
	if h.timer != nil {
		h.timer.Stop()
	}
	h.End(lost)
	h.lease.e.holder.CompareAndSwap(h, nil)
	h.lease.e.l.holds.End()
}

// process returns the name of this process for operators: its name at the first node.
func (l *Locks) process() string { return l.nodes[0].engine.Process() }

// Deadline implements core.Hold.
func (h *hold) Deadline() clock.Instant { return h.EndsBy(h.lease.deadline()) }

// Expired implements core.Hold.
func (h *hold) Expired() bool { return clock.Until(h.Deadline()) <= 0 }

// Downgrade implements core.Hold: there are no readers.
func (h *hold) Downgrade(context.Context) error { return errors.ErrUnsupported }

// KeepTaken implements core.Hold.
func (h *hold) KeepTaken(d time.Duration) {
	l := h.lease.e.l
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Keep(d)
}
