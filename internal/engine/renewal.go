package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// renewAfter plans the next renewal, which may be up to d/4 early.
func (l *lease) renewAfter(t clock.Instant, d time.Duration) {
	l.renewAt, l.slack = t.Add(d), d/4
}

// retryInterval returns after how long without an answer the next renewal is sent: a sixth of the lease, or
// less if less is left.
func (l *lease) retryInterval(now clock.Instant) time.Duration {
	pace := min(l.duration/6, max(l.expiry().Sub(now)/4, minPace))
	if l.checking {
		return min(pace, script.PollInterval) // readers wait for the answer
	}
	return pace
}

const minPace = 10 * time.Millisecond

// renewalTimeout returns how long a renewal by the watchdog may take. It is longer than the retry interval:
// a late answer still counts, and a round trip to a distant server may take longer than the interval.
func (l *lease) renewalTimeout(now clock.Instant) time.Duration {
	left := max(l.expiry().Sub(now), minPace)
	return min(left, max(2*l.retryInterval(now), time.Second))
}

// overdueAt returns when the answer to a renewal is overdue: a sixth of the lease after it was sent.
func (l *lease) overdueAt() clock.Instant { return l.asked.Add(l.duration / 6) }

var errOverdue = fmt.Errorf("%w: a renewal has not been answered yet", core.ErrUnavailable)

// reportRenewal returns a function that tells the holders of a renewal, or why it failed. It is called with no
// mutex held.
func (l *lease) reportRenewal(err error) func() {
	holds := slices.Collect(l.holds.All())
	return func() {
		for _, h := range holds {
			h.Req.Events.Renewed(err)
		}
	}
}

// renewalDuration returns the lease that a renewal sent now sets.
func (l *lease) renewalDuration() time.Duration {
	if h := l.holds.First(); h != nil && h.Req.Fixed {
		return max(clock.Until(h.Since.Add(l.duration)), time.Millisecond)
	}
	return l.duration
}

// renewalDue prepares a renewal by the watchdog.
func (l *lease) renewalDue() *transport.Call {
	c := l.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	duration := l.renewalDuration()
	q := c.snapshot()
	var k *transport.Call
	n := l.renewal(duration)
	k = n.Call(c.e.sender.Context(), c.e.scripts, func(a *transport.Reply) { k.AfterBatch = l.onRenewed(a, duration, q) })
	k.Timeout = l.renewalTimeout(clock.Now())
	return k
}

// renewal prepares a run of renew.lua.
func (l *lease) renewal(duration time.Duration) script.Renew {
	return script.Renew{Keys: &l.c.keys, ID: l.id, Lease: duration, Permit: l.c.isPermit()}
}

// onRenewed deals with the answer to a renewal for duration. It returns a function that notifies the holders,
// which is called when all answers of the batch have been dealt with; it may be nil.
func (l *lease) onRenewed(a *transport.Reply, duration time.Duration, q snapshot) (notify func()) {
	c := l.c
	c.shard.mu.Lock()
	if l.over {
		c.unlock()
		return nil
	}
	defer c.unlock()
	err := l.noteRenewal(a, duration)
	if errors.Is(err, errNotHeldByID) {
		lost := l.lose(l.gone())
		return func() { notifyLost(lost) }
	}
	notify = l.reportRenewal(transport.Failure(err))
	switch {
	case !c.isShared() || c.lease != l:
	case err == nil:
		l.onChecked(a.Sent, q)
	case c.waiters.Len > 0: // readers wait: they send a request of their own
		l.checking = false
		l.stopSharing()
		if c.request != nil {
			c.request.lastErr = err // for callers whose time is over before the answer
		}
	}
	return notify
}

// noteRenewal moves the deadline if reply says that the lease was renewed for duration.
func (l *lease) noteRenewal(reply *transport.Reply, duration time.Duration) error {
	a, err := script.RenewAnswer(reply)
	switch {
	case err != nil:
		return err
	case a.Outcome == script.NotHeld:
		return errNotHeldByID
	case reply.Few != nil:
		if reply.Moved {
			l.doubt(clock.Now())
		}
		return reply.Few
	}
	e := l.c.e
	sent := reply.Sent
	if sent < clock.Instant(l.c.slot.movedAt.Load()) {
		return errSlotMoved
	}
	l.confirmed, l.moved, l.asked, l.overdue = true, false, 0, false
	l.takenAway = l.takenAway && sent < l.hintAt
	h := l.holds.First()
	until := sent.Add(duration - e.margin(duration))
	if h != nil {
		until = until.Add(-core.DriftOf(h.Req))
	}
	l.expires.Store(max(l.expires.Load(), int64(until)))
	l.renewAfter(sent, duration/3)
	if h != nil && h.Req.Fixed {
		l.renewAt = 0
	}
	if l.hintAt > clock.Now() {
		l.renewAfter(l.hintAt, 0)
	}
	l.setContended(a.Contended || sent < l.contendedAt)
	l.reschedule()
	return nil
}

var errNotHeldByID = fmt.Errorf("%w by this id", core.ErrNotHeld)
