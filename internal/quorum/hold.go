package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/localq"
)

// A hold is one caller's turn with a lease. It implements core.Hold. The mutex of Locks guards what changes.
type hold struct {
	localq.Hold
	lease *lease
	timer *clock.Timer // ends it when its maximum is over; nil: it has none
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

// onLimit ends a hold whose maximum is over.
func (h *hold) onLimit() {
	l := h.lease.e.l
	l.mu.Lock()
	if h.Over || h.lease.over {
		l.mu.Unlock()
		return
	}
	tell := h.lease.lose(h.outOfTime())
	l.unlockAndTell(tell)
}

// outOfTime returns the loss of a hold whose time is over.
func (h *hold) outOfTime() error {
	return h.OutOfTime(clock.Now(), "its lease ran out without a renewal at enough nodes")
}

// end ends the hold on this side. lost is nil if it was released.
func (h *hold) end(lost error) {
	if h.timer != nil {
		h.timer.Stop()
	}
	h.End(lost)
	h.lease.e.holder.CompareAndSwap(h, nil)
	h.lease.e.l.holds.End()
}

// process is how an operator recognises this process: by its name at the first node.
func (l *Locks) process() string { return l.nodes[0].engine.Process() }

// Deadline implements core.Hold.
func (h *hold) Deadline() clock.Instant {
	d := h.lease.deadline()
	if most := h.MaxEnd(); !most.IsZero() && most.Before(d) {
		return most
	}
	return d
}

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

// isForgotten reports whether nobody can release the hold any more. It needs no mutex.
func (h *hold) isForgotten() bool { return h.Req.Events.IsForgotten() }

// onForgotten notes that the hold is not renewed any more. It returns what tells that; nil if it is known.
func (h *hold) onForgotten() (tell func()) {
	if h.Over || h.Forgotten {
		return nil
	}
	h.Forgotten = true
	ends := h.Deadline().Time()
	return func() { h.Req.Events.Forgotten(h.Local(), ends) }
}
