package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/pause"
)

// renewalTries is the number of tries, of which each may fail, that fit into a lease.
const renewalTries = 12

// keep renews the old key until the hold ends. The lock of lockmw is renewed by its own watchdog.
func (h *hold) keep() {
	for h.ctx.Err() == nil {
		now := clock.Now()
		if due := h.dueAt(); due > now {
			clock.DetectSkips()
			pause.For(h.ctx, min(due.Sub(now), clock.Interval)) // timers stop while the machine sleeps
			continue
		}
		h.expireOwn()
		if h.ctx.Err() != nil || h.Req.Fixed {
			continue
		}
		h.mu.Lock()
		try := max(h.lease/renewalTries, releaseTry) // a connection may swallow a command; the next try takes another one
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(h.ctx, min(clock.Until(h.ownDeadline()), try))
		err := h.renewOld(ctx)
		cancel()
		if err != nil && h.ctx.Err() == nil {
			h.Req.Events.Renewed(h.old.err().failed(err))
		}
	}
}

// dueAt returns when keep has something to do: a renewal, or the end of the hold.
func (h *hold) dueAt() clock.Instant {
	deadline := h.ownDeadline()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Req.Fixed || deadline < h.renewAt {
		return deadline
	}
	return h.renewAt
}

// renewOld renews the old key, and ends the hold if the key is lost. Its error is the error of the command.
func (h *hold) renewOld(ctx context.Context) error {
	select {
	case h.renewing <- struct{}{}:
	case <-ctx.Done():
		return noAnswer(ctx)
	}
	defer func() { <-h.renewing }()
	h.mu.Lock()
	lease := h.lease
	h.renewAt = clock.Now().Add(max(lease/renewalTries, 10*time.Millisecond)) // if this try fails
	h.mu.Unlock()
	sent := clock.Now()
	t := h.old.renew(ctx, lease)
	switch {
	case h.old.isHeld(t):
		h.mu.Lock()
		h.oldEnds, h.renewAt = sent.Add(lease-margin(lease)), sent.Add(lease/3)
		h.mu.Unlock()
		return nil
	case h.old.isLost(t):
		why := "is gone from the server"
		if t.foreign > 0 {
			why = "has another holder"
		}
		rest := clock.Until(h.ownDeadline())
		h.lose(h.old.err().lost(why), rest)
		return h.gone()
	}
	return t.err
}

// lose ends the hold as lost. Its caller may still be at work, so what is left of it is freed at Unlock, and after rest at the
// latest.
func (h *hold) lose(cause error, rest time.Duration) {
	h.mu.Lock()
	if h.Over {
		h.mu.Unlock()
		return
	}
	h.End(cause)
	h.mu.Unlock()
	h.end()
	if !h.begun.Load() {
		return // the call notices it
	}
	h.Req.Events.Lost(cause)
	l := h.call.locks
	l.background.Go(func() {
		timer := time.NewTimer(max(rest, 0))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-h.unlocked:
			return // Release frees it
		case <-l.closed.Done():
		}
		h.free(tryPatience)
	})
}

// events are the events of the lock of lockmw. They reach the caller of the hold.
type events struct {
	core.Events
	h *hold
}

// Contended implements core.Events.
func (e events) Contended(w core.Wait) {
	if !e.h.call.notified.Swap(true) {
		e.Events.Contended(w)
	}
}

// Renewed implements core.Events.
func (e events) Renewed(err error) {
	if e.h.begun.Load() {
		e.Events.Renewed(err)
	}
}

// IsForgotten implements core.Events. The engine may hold a mutex.
func (e events) IsForgotten() bool { return e.h.begun.Load() && e.Events.IsForgotten() }

// Lost implements core.Events.
func (e events) Lost(cause error) {
	rest := clock.Until(e.h.ownDeadline())
	if errors.Is(cause, core.ErrClosed) {
		rest = 0
	}
	e.h.lose(cause, rest)
}
