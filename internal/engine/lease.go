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

// A lease is what the server has granted to this process, under one id. It is passed from hold to hold
// within the process as long as there are tokens, or shared by several readers. The shard's mutex guards it.
type lease struct {
	c          *cohort
	id         *script.ID
	duration   time.Duration
	grantedAt  clock.Instant    // when it came to this process
	holds      list.List[*hold] // one, or those of readers that share it, the first to end first
	placed     *hold            // ended, and its kept place ends with it; nil: none
	slots      string           // of a permit
	mode       core.Mode        // Read from a downgrade on
	confirmed  bool             // the server has set the duration; before that, the accept window
	over       bool             // released or lost
	contended  bool             // another process waits for the lock
	grantBatch *grantBatch      // who may have it next, in strict order; nil: it has none
	checking   bool             // a renewal is to say whether more readers may join
	paced      bool             // a renewal waits for its turn
	moved      bool             // its slot has, and replicas there have not acknowledged it
	listens    bool             // counted by its inbox
	takenAway  bool             // a message says that an operator took it away, and no renewal has been answered since
	overdue    bool             // a renewal has no answer in good time, which the holders know

	first        int64         // the token that it began with
	tokens       localq.Tokens // a shared lease has only one
	passes       int           // since it is contended
	contendedAt  clock.Instant // when the last message said so
	shareUntil   clock.Instant // readers may join without a command until then
	subscription int64         // the one that would bring the message of a writer

	expires atomic.Int64  // an instant: the lock is exclusive until then
	renewAt clock.Instant // 0: never
	slack   time.Duration // by how much it may be early
	asked   clock.Instant // when the first renewal was due that has no answer; 0: none
	hintAt  clock.Instant // when the last renewal was sent, or is going to be, that a message led to; 0: never
	timer   timers.Timer  // for what comes first: a renewal, the deadline, or that an answer is overdue
	timerAt clock.Instant // when the timer is due; 0: not set
}

// expiry returns until when the lock is exclusive.
func (l *lease) expiry() clock.Instant { return clock.Instant(l.expires.Load()) }

// newHold gives a caller the lease, or a share in it.
func (l *lease) newHold(r *core.Request, token int64, now clock.Instant) *hold {
	h := &hold{Hold: localq.NewHold(r, token, now), lease: l}
	if l.renewAt == 0 && !r.Fixed { // so far only forgotten holds shared the lease
		l.renewAfter(now, 0)
	}
	l.holds.Push(h)
	l.adoptTerms(h)
	l.c.e.active.Begin()
	return h
}

// adoptTerms gives the lease the duration and the limits that h wants.
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

// reschedule sets the timer to the deadline or the next renewal, whatever comes first. A renewal may be
// early, to go out together with others.
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

// deadline returns when the first hold is over unless the lease is renewed.
func (l *lease) deadline() clock.Instant {
	if l.holds.First() == nil {
		return l.expiry()
	}
	return l.holds.First().deadline()
}

// Due ends holds whose time is over, and has the lease be renewed if it is time for that.
func (l *lease) Due() {
	renew, lost, news := l.due()
	e := l.c.e
	e.round.lost = append(e.round.lost, lost...)
	for _, report := range news {
		e.schedule.Go(report) // without holding up the schedule
	}
	if renew {
		e.round.renewals = append(e.round.renewals, transport.Due{Key: l.c.keys.Holder(), Deadline: l.expiry(), Call: l})
	}
}

// due is Due with the shard locked. It ends holds whose time is over, or the whole lease, and
// returns the holds. It also reports whether the lease is to be renewed. What it returns as news are
// functions to be called: the answer to a renewal is overdue, or holds were forgotten.
func (l *lease) due() (renew bool, lost []*hold, news []func()) {
	c := l.c
	c.shard.mu.Lock()
	defer c.unlock()
	if l.over {
		return false, nil, nil
	}
	l.timerAt = 0
	now := clock.Now()
	lost = l.expire(now)
	if l.over {
		return false, lost, nil
	}
	if l.asked != 0 && !l.overdue && now >= l.overdueAt() {
		l.overdue = true
		news = append(news, l.reportRenewal(errOverdue))
	}
	if l.renewAt != 0 && !now.Before(l.renewAt.Add(-l.slack)) {
		if l.asked == 0 { // else an answer that is to come makes the lease longer
			if report := l.findForgotten(); report != nil {
				news = append(news, report)
			}
		}
		renew, l.renewAt = l.isWanted(), 0
	}
	if renew {
		// The next renewal is sent whether or not this one has been answered.
		l.renewAfter(now, l.retryInterval(now))
		if l.asked == 0 {
			l.asked = max(now, 1)
		}
		renew, l.paced = !l.paced, true
	}
	l.reschedule()
	return renew, lost, news
}

// isFresh reports whether enough is left of the lease to give it to another caller.
func (l *lease) isFresh(now clock.Instant) bool {
	whole := script.AcceptWindow
	if l.confirmed {
		whole = l.duration
	}
	return l.expiry().Sub(now) >= whole/2
}

// setContended notes whether other processes wait. If that is new, passes are counted from now on.
func (l *lease) setContended(contended bool) {
	if contended != l.contended {
		l.contended, l.passes = contended, 0
	}
	if contended {
		l.shareUntil = 0
	}
}

// cancel has the server forget the lease, in the background.
func (l *lease) cancel() { l.c.e.cancelID(l.c.keys, l.target()) }

// cancelHeld is cancel for a lease that the server has granted, and of which this process has begun no release. Many plain ones are
// released by one run of release_batch.lua.
func (l *lease) cancelHeld() {
	if l.placed != nil || l.grantBatch != nil || l.id.Copied() {
		l.cancel() // a release leaves what belongs to these if the lease is lost
		return
	}
	run := &script.Release{Keys: &l.c.keys, ID: l.id, Read: l.isRead(), Permit: l.c.isPermit()}
	l.c.e.cancelBy(run.Call, l.c.keys, l.target())
}

func (l *lease) target() cancelTarget {
	t := cancelTarget{key: l.c.lockKey(), id: l.id.String(), lease: l.duration, mark: l.id.Copied()}
	t.isHold = clock.Now() < l.expiry()
	if l.placed != nil {
		t.place, t.endPlace = l.placed.Req.Place, l.placed.Token()
	}
	if l.grantBatch != nil {
		t.served = l.grantBatch.servedIDs(0)
	}
	return t
}

// isRead reports whether the lease excludes no readers.
func (l *lease) isRead() bool { return l.mode == core.Read }

// isUnused reports whether there is no hold, and no reader waits for a share.
func (l *lease) isUnused() bool {
	return l.holds.First() == nil && !(l.c.isShared() && l.c.lease == l && l.c.waiters.Len > 0)
}

// detach ends the lease and its holds on this side, and returns those that are lost. cause is nil if none is.
func (l *lease) detach(cause error) (lost []*hold) {
	l.c.e.ids.remove(l.id)
	return l.detachKeepingID(cause)
}

// detachKeepingID is detach for a lease that is to be released. Its id stays known until the release is
// answered: else a late push of its grant would be cancelled as unwanted, and overtake the release.
func (l *lease) detachKeepingID(cause error) (lost []*hold) {
	for h := l.holds.First(); h != nil; h = l.holds.First() {
		l.endHold(h, cause)
		if cause != nil {
			lost = append(lost, h)
		}
	}
	l.over = true
	if l.listens {
		l.c.slot.inbox.Listeners.Add(-1)
	}
	if l.c.lease == l {
		l.c.lease = nil
		l.c.stopReporter()
	}
	l.c.removeLease(l)
	l.c.e.schedule.Remove(&l.timer)
	if l.grantBatch != nil {
		l.grantBatch.end()
	}
	return lost
}

// endHold ends one hold on this side. cause is nil if it is not lost.
func (l *lease) endHold(h *hold, cause error) {
	l.holds.Remove(h)
	h.End(cause)
	if h.keepsPlace() {
		l.placed = h
	}
	l.c.e.active.End()
}

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

// findForgotten looks for holds that nobody can release any more. They end with the lease as it is now, even if it is
// renewed for others that share it. A minimum hold is waited for. It returns a function that tells the callers, which
// is called with no mutex held; nil if there is nothing to tell.
func (l *lease) findForgotten() (report func()) {
	var found []*hold
	for h := range l.holds.All() {
		if h.BecomesForgotten() {
			h.limitTo(l.expiry())
			found = append(found, h)
		}
	}
	if found == nil {
		return nil
	}
	l.sortHolds()
	return func() {
		for _, h := range found {
			h.Req.Events.Forgotten(h.Local(), h.Deadline().Time())
		}
	}
}

// sortHolds puts the hold that ends first to the front.
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

// isWanted reports whether the lease is to be renewed: for a hold that was not forgotten, or for a caller that waits.
func (l *lease) isWanted() bool {
	for h := range l.holds.All() {
		if !h.Forgotten {
			return true
		}
	}
	return l.holds.IsEmpty() || l.checking
}

// What a server may have lost has to be over when its quarantine ends (rule 22 of docs/protocol.md). So no lease and no
// minimum hold lasts longer than that, and no tick does, from the first instant at which it may have been run to the last one
// at which it may begin.

var _ core.LimitedLocks = (*Engine)(nil)

// checkTaken returns an error if a key may not be kept taken by a lease, or something else, of that length.
func (c *Config) checkTaken(by string, d time.Duration) error {
	if longest := c.longest(); longest > 0 && d > longest {
		return fmt.Errorf("%w: %s of %v: with WithQuarantine(%v) a key may be kept taken for %v at most", core.ErrInvalidOption, by, d, c.Quarantine, longest)
	}
	return nil
}

// longest is how long a key may be kept taken; 0: there is no limit.
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

// checkRequest returns an error if the quarantine is too short for what the request wants.
func (e *Engine) checkRequest(r *core.Request) error {
	if longest := e.cfg.longest(); longest > 0 && r.Within > longest/2 {
		return fmt.Errorf("%w: a tick within %v: with WithQuarantine(%v) a tick may be within %v at most",
			core.ErrInvalidOption, r.Within, e.cfg.Quarantine, longest/2)
	}
	return e.CheckTimes(r.Lease, r.MinHold)
}
