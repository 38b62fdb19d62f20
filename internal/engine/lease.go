package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// A lease is a grant of the server to this process, under one id. It is passed from hold to hold within the process as long as
// there are tokens, or shared by several readers. The shard's mutex guards it.
type lease struct {
	c          *cohort
	id         *script.ID
	duration   time.Duration
	grantedAt  clock.Instant    // when this process received it
	holds      list.List[*hold] // one, or the holds of readers that share the lease; the first to end comes first
	placed     *hold            // an ended hold whose kept place ends with the lease; nil: none
	slots      string           // of a permit
	run        *leaseRun        // of the key's work; nil: none
	mode       core.Mode        // Read after a downgrade
	confirmed  bool             // the server has set the duration; until then, the accept window
	over       bool             // released or lost
	contended  bool             // another process waits for the lock
	grantBatch *grantBatch      // calls that the lease may be passed to, in strict order; nil: none
	checking   bool             // a renewal is to find out whether more readers may join
	paced      bool             // a renewal waits for its turn
	moved      bool             // its slot has moved, and the replicas there have not acknowledged it
	listens    bool             // counted as a listener of its inbox
	takenAway  bool             // a message says that an operator released it, and no renewal has been answered since
	overdue    bool             // the answer to a renewal is late, and the holders have been notified

	first        int64         // its first token
	tokens       localq.Tokens // a shared lease has only one
	passes       int           // passes since it became contended
	contendedAt  clock.Instant // when the last message said so
	shareUntil   clock.Instant // readers may join without a command until then
	subscription int64         // the subscription that would bring the message of a writer

	expires atomic.Int64  // the instant until which the lock is exclusive
	renewAt clock.Instant // 0: never
	slack   time.Duration // how early the renewal may be sent
	asked   clock.Instant // when the first unanswered renewal was due; 0: none
	hintAt  clock.Instant // when the last renewal that a message caused was or will be sent; 0: never
	timer   timers.Timer  // for the renewal, the deadline or a late answer, whichever comes first
	timerAt clock.Instant // when the timer fires; 0: not set
}

// A leaseRun is the run of a key's work, which has the lease. The record of the key belongs to it once it was opened.
type leaseRun struct {
	name    string
	opened  bool  // by the grant
	token   int64 // of the record that the grant has opened
	earlier int   // runs before that left no outcome
	begun   int64 // the token of the record since the run has begun to work; 0: it has not
}

// expiry returns the instant until which the lock is exclusive.
func (l *lease) expiry() clock.Instant { return clock.Instant(l.expires.Load()) }

// newHold gives a caller the lease, or a share in it.
func (l *lease) newHold(r *core.Request, token int64, now clock.Instant) *hold {
	h := &hold{Hold: localq.NewHold(r, token, now), lease: l}
	if l.renewAt == 0 && !r.Fixed { // only forgotten holds have shared the lease so far
		l.renewAfter(now, 0)
	}
	l.holds.Push(h)
	l.adoptTerms(h)
	l.c.e.active.Begin()
	return h
}

// adoptTerms gives the lease the duration and the limits of h.
func (l *lease) adoptTerms(h *hold) {
	if l.duration != h.Req.Lease {
		l.duration, l.confirmed = h.Req.Lease, false
		l.renewAfter(h.Since, 0)
	}
	if h.Req.MaxHold > 0 {
		h.limitTo(h.MaxEnd())
	}
	if h.Req.Fixed {
		if l.confirmed {
			l.renewAt = 0
			h.limitTo(l.expiry())
		} else {
			h.limitTo(h.Since.Add(l.duration))
		}
	}
	l.reschedule()
}

// reschedule sets the timer to the deadline or the next renewal, whichever comes first. A renewal may be early, so that it can
// share a pipeline.
func (l *lease) reschedule() {
	at, slack := l.deadline(), time.Duration(0)
	if l.renewAt != 0 && l.renewAt < at {
		at, slack = l.renewAt, l.slack
	}
	if l.asked != 0 && !l.overdue && l.overdueAt() < at {
		at, slack = l.overdueAt(), 0
	}
	if at != l.timerAt {
		l.timerAt = at
		l.c.e.schedule.Set(&l.timer, at, slack)
	}
}

// deadline returns when the first hold ends unless the lease is renewed.
func (l *lease) deadline() clock.Instant {
	if l.holds.First() == nil {
		return l.expiry()
	}
	return l.holds.First().Deadline()
}

// Due ends expired holds, or the whole lease. It adds a renewal to the round if one is due, and reports a late answer to a renewal.
func (l *lease) Due() {
	c, e := l.c, l.c.e
	c.shard.mu.Lock()
	defer c.unlock()
	if l.over {
		return
	}
	l.timerAt = 0
	now := clock.Now()
	e.round.lost = append(e.round.lost, l.expire(now)...)
	if l.over {
		return
	}
	if l.asked != 0 && !l.overdue && now >= l.overdueAt() {
		l.overdue = true
		e.schedule.Go(l.reportRenewal(errOverdue)) // the schedule must not wait for the report
	}
	if l.renewAt != 0 && !now.Before(l.renewAt.Add(-l.slack)) {
		if l.asked == 0 { // otherwise a pending answer may still extend the lease
			l.findForgotten()
		}
		l.renewAt = 0
		if l.isWanted() {
			l.renew(now)
		}
	}
	l.reschedule()
}

// renew adds a renewal to the round, unless one waits for its turn.
func (l *lease) renew(now clock.Instant) {
	// The next renewal is sent whether or not this one is answered.
	l.renewAfter(now, l.retryInterval(now))
	if l.asked == 0 {
		l.asked = max(now, 1)
	}
	if !l.paced {
		l.paced = true
		due := transport.Due{Key: l.c.keys.Holder(), Deadline: l.expiry(), Call: l}
		l.c.e.round.renewals = append(l.c.e.round.renewals, due)
	}
}

// isFresh reports whether enough of the lease is left to give it to another caller.
func (l *lease) isFresh(now clock.Instant) bool {
	whole := script.AcceptWindow
	if l.confirmed {
		whole = l.duration
	}
	return l.expiry().Sub(now) >= whole/2
}

// setContended records whether other processes wait. A change restarts the count of passes.
func (l *lease) setContended(contended bool) {
	if contended != l.contended {
		l.contended, l.passes = contended, 0
	}
	if contended {
		l.shareUntil = 0
	}
}

// cancel ends the lease on the server, in the background.
func (l *lease) cancel() { l.c.e.cancelID(l.c.keys, l.target()) }

// cancelHeld is cancel for a granted lease whose release has not begun. One execution of release_batch.lua releases many plain
// locks.
func (l *lease) cancelHeld() {
	if l.placed != nil || l.grantBatch != nil || l.id.Copied() || l.run != nil {
		l.cancel() // a release would leave something behind if the lease is lost
		return
	}
	run := &script.Release{Keys: &l.c.keys, ID: l.id, Read: l.isRead(), Permit: l.c.isPermit()}
	l.c.e.cancelBy(run.Call, l.c.keys, l.target())
}

func (l *lease) target() cancelTarget {
	t := cancelTarget{key: l.c.lockKey(), id: l.id.String(), lease: l.duration, mark: l.id.Copied()}
	if l.run != nil {
		t.run, t.begun = l.run.name, l.run.begun
	}
	t.isHold = clock.Now() < l.expiry()
	if l.placed != nil {
		t.place, t.endPlace = l.placed.Req.Place, l.placed.Token()
	}
	if l.grantBatch != nil {
		t.served = l.grantBatch.servedIDs(0)
	}
	return t
}

// isRead reports whether the lease admits readers.
func (l *lease) isRead() bool { return l.mode == core.Read }

// isUnused reports whether the lease has no hold, and no reader waits for a share.
func (l *lease) isUnused() bool {
	return l.holds.First() == nil && !(l.c.isShared() && l.c.lease == l && l.c.waiters.Len > 0)
}

// detach ends the lease and its holds in this process. If cause is not nil, it returns the holds as lost.
func (l *lease) detach(cause error) (lost []*hold) {
	l.c.e.ids.remove(l.id)
	return l.detachKeepingID(cause)
}

// detachKeepingID is detach for a lease that is to be released. Its id stays in the table until the release is answered.
// Otherwise a late push of its grant would lead to a cancel, which could overtake the release.
func (l *lease) detachKeepingID(cause error) (lost []*hold) {
	c := l.c
	for h := l.holds.First(); h != nil; h = l.holds.First() {
		l.endHold(h, cause)
		if cause != nil {
			lost = append(lost, h)
		}
	}
	l.over = true
	if l.listens {
		c.slot.inbox.Listeners.Add(-1)
	}
	if c.lease == l {
		c.lease = nil
		c.stopReporter()
	}
	c.known--
	if c.latest == l {
		c.latest = nil
	}
	c.e.schedule.Remove(&l.timer)
	if l.grantBatch != nil {
		l.grantBatch.end()
	}
	return lost
}

// endHold ends one hold in this process. cause is nil if the hold is not lost.
func (l *lease) endHold(h *hold, cause error) {
	l.holds.Remove(h)
	h.End(cause)
	if h.keepsPlace() {
		l.placed = h
	}
	l.c.e.active.End()
}

// errDeleted is the loss of a lock that is gone from the server.
var errDeleted = fmt.Errorf("%w: it is gone from the server, or another holder has it (deleted, evicted or released by force)", core.ErrLost)

// expire ends expired holds. It ends the lease if that has expired or has no hold left.
func (l *lease) expire(now clock.Instant) (lost []*hold) {
	for h := l.holds.First(); h != nil && now >= h.Deadline(); h = l.holds.First() {
		l.endHold(h, h.expiryLoss(now))
		lost = append(lost, h)
	}
	if now >= l.expiry() || len(lost) > 0 && l.isUnused() {
		l.lose(nil) // it has no hold that could be lost
	}
	return lost
}

// lose ends the lease as lost and cancels it on the server. The caller passes the result to notifyLost, with no mutex held.
func (l *lease) lose(cause error) []*hold {
	lost := l.detach(cause)
	l.cancel()
	l.c.sendRequest(nil)
	return lost
}

var errTakenAway = fmt.Errorf("%w: an operator released it", core.ErrLost)

// expiryLoss returns the loss of an expired hold.
func (h *hold) expiryLoss(now clock.Instant) error {
	if most := h.MaxEnd(); h.lease.moved && (most.IsZero() || now.Before(most)) {
		return errMoved
	}
	return h.ExpiryLoss(now, "its lease ran out without a renewal")
}

var errMoved = fmt.Errorf("%w: its slot has moved, and replicas of the new master have not acknowledged it in time", core.ErrLost)

// notifyLostAsync is notifyLost in the background.
func (e *Engine) notifyLostAsync(lost []*hold) { e.schedule.Go(func() { notifyLost(lost) }) }

// notifyLost notifies the callers of lost holds: their Events, in lockmw/heldlock.go, end the contexts.
func notifyLost(lost []*hold) {
	for _, h := range lost {
		h.Req.Events.Lost(h.Lost)
	}
}

// findForgotten finds holds that can no longer be released, and notifies the callers in the background. These holds end with the
// lease's present deadline, even if the lease is renewed for others that share it. A hold with an unfinished minimum hold is left
// alone.
func (l *lease) findForgotten() {
	var found []*hold
	for h := range l.holds.All() {
		if h.BecomesForgotten() {
			h.limitTo(l.expiry())
			found = append(found, h)
		}
	}
	if found == nil {
		return
	}
	l.sortHolds()
	l.c.e.schedule.Go(func() {
		for _, h := range found {
			h.Req.Events.Forgotten(h.Local(), h.Deadline().Time())
		}
	})
}

// sortHolds moves the hold that ends first to the front.
func (l *lease) sortHolds() {
	end := func(h *hold) clock.Instant {
		if limit := clock.Instant(h.limit.Load()); limit != 0 {
			return limit
		}
		return timers.Never
	}
	for _, h := range slices.SortedStableFunc(l.holds.All(), func(a, b *hold) int { return cmp.Compare(end(a), end(b)) }) {
		l.holds.Remove(h)
		l.holds.Push(h)
	}
}

// isWanted reports whether to renew the lease: a hold has not been forgotten, or a caller waits.
func (l *lease) isWanted() bool {
	for h := range l.holds.All() {
		if !h.Forgotten {
			return true
		}
	}
	return l.holds.IsEmpty() || l.checking
}

// Everything that a server may have lost must have ended when its quarantine ends (rule 22 of docs/protocol.md). So no lease and
// no minimum hold is longer than the quarantine. Neither is a tick, from the first instant at which it may run to the last at
// which it may begin.

var _ core.LimitedLocks = (*Engine)(nil)

// checkTaken returns an error if the quarantine does not allow a key to be kept taken for that long. by names the reason.
func (c *Config) checkTaken(by string, d time.Duration) error {
	if longest := c.longest(); longest > 0 && d > longest {
		return fmt.Errorf("%w: %s of %v is too long: WithQuarantine(%v) allows at most %v", core.ErrInvalidOption, by, d, c.Quarantine, longest)
	}
	return nil
}

// longest returns how long a key may be kept taken; 0: no limit.
func (c *Config) longest() time.Duration {
	if c.Quarantine == 0 {
		return 0
	}
	return c.Quarantine - c.margin(c.Quarantine)
}

// CheckTimes implements core.LimitedLocks.
func (e *Engine) CheckTimes(lease, minHold time.Duration) error {
	if err := e.cfg.checkTaken("a lease", lease); err != nil {
		return err
	}
	return e.cfg.checkTaken("a minimum hold", minHold)
}

// checkRequest returns an error if the quarantine is too short for the request.
func (e *Engine) checkRequest(r *core.Request) error {
	if longest := e.cfg.longest(); longest > 0 && r.Within > longest/2 {
		return fmt.Errorf("%w: a tick within %v is too wide: WithQuarantine(%v) allows at most %v",
			core.ErrInvalidOption, r.Within, e.cfg.Quarantine, longest/2)
	}
	return e.CheckTimes(r.Lease, r.MinHold)
}
