package engine

import (
	"fmt"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
)

// errDeleted is the loss of a lock that the server does not know any more.
var errDeleted = fmt.Errorf("%w: it is gone from the server, or another holder has it (deleted, evicted or released by force)", core.ErrLost)

// expire ends the holds whose time is over, and the lease if its own is or no hold is left.
func (l *lease) expire(now clock.Instant) (lost []*hold) {
	for h := l.holds.First(); h != nil && now >= h.deadline(); h = l.holds.First() {
		l.endHold(h, h.outOfTime(now))
		lost = append(lost, h)
	}
	if now >= l.expiry() || len(lost) > 0 && l.isUnused() {
		l.detach(nil)
		l.cancel()
		l.c.sendRequest(nil)
	}
	return lost
}

// lose ends the lease as lost and has the server forget it. The caller passes what it returns to notifyLost,
// with no mutex held.
func (l *lease) lose(cause error) []*hold {
	lost := l.detach(cause)
	l.cancel()
	l.c.sendRequest(nil)
	return lost
}

var errTakenAway = fmt.Errorf("%w: an operator released it", core.ErrLost)

// outOfTime returns the loss of a hold whose time is over.
func (h *hold) outOfTime(now clock.Instant) error {
	if most := h.MaxEnd(); h.lease.moved && (most.IsZero() || now.Before(most)) {
		return errMoved
	}
	return h.OutOfTime(now, "its lease ran out without a renewal")
}

var errMoved = fmt.Errorf("%w: its slot has moved, and replicas of the new master have not acknowledged it in time", core.ErrLost)

// tellLost is notifyLost that waits for nobody.
func (e *Engine) tellLost(lost []*hold) { e.schedule.Go(func() { notifyLost(lost) }) }

func (h *hold) notifyLost() { h.Req.Events.Lost(h.Lost) }

// notifyLost notifies the callers of lost holds.
func notifyLost(lost []*hold) {
	for _, h := range lost {
		h.notifyLost()
	}
}
