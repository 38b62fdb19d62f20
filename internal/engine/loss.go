package engine

import (
	"fmt"

	"github.com/lockmw/go/internal/core"
)

// errDeleted is the loss of a lock that the server does not know any more.
var errDeleted = fmt.Errorf("%w: it is gone from the server, or another holder has it (deleted, evicted or released by force)", core.ErrLost)

// expire ends the holds whose time is over, and the lease if its own is or no hold is left.
func (l *lease) expire(now instant) (lost []*hold) {
	for h := l.holds.First(); h != nil && now >= h.deadline(); h = l.holds.First() {
		l.endHold(h, fmt.Errorf("%w: %s", core.ErrLost, h.endReason(now)))
		lost = append(lost, h)
	}
	if now >= instant(l.expires.Load()) || len(lost) > 0 && l.isUnused() {
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

// endReason says why the hold is over.
func (h *hold) endReason(now instant) string {
	switch {
	case h.req.MaxHold > 0 && now >= after(h.since, h.req.MaxHold):
		return "its maximum hold is over"
	case h.lease.moved:
		return "its slot has moved, and replicas of the new master have not acknowledged it in time"
	case h.req.Fixed:
		return "its fixed lease is over"
	case h.forgotten:
		return "it was forgotten: nobody could unlock it any more"
	}
	return "its lease ran out without a renewal"
}

func (h *hold) notifyLost() { h.req.Events.Lost(h.lost) }

// notifyLost notifies the callers of lost holds.
func notifyLost(lost []*hold) {
	for _, h := range lost {
		h.notifyLost()
	}
}
