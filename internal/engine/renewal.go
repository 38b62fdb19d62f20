package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// renewAfter schedules the next renewal. It may be up to d/4 early, so that it can share a pipeline. A random part of that
// spreads renewals if there are many.
func (l *lease) renewAfter(t clock.Instant, d time.Duration) {
	early := rand.N(d/4 + 1)
	l.renewAt, l.slack = t.Add(d-early), d/4-early
}

// retryInterval returns how long to wait for an answer before the next renewal: a sixth of the lease, or less if less is left.
func (l *lease) retryInterval(now clock.Instant) time.Duration {
	pace := min(l.duration/6, max(l.expiry().Sub(now)/4, minPace))
	if l.checking {
		return min(pace, script.PollInterval) // readers wait for the answer
	}
	return pace
}

// planRenewal schedules the next renewal at that time.
func (l *lease) planRenewal(at clock.Instant) {
	l.renewAfter(at, 0)
	l.reschedule()
}

const minPace = 10 * time.Millisecond

// renewalTimeout returns how long a renewal by the watchdog may take. It is longer than the retry interval: a late answer still
// counts, and a round trip to a distant server may take longer than the interval.
func (l *lease) renewalTimeout(now clock.Instant) time.Duration {
	left := max(l.expiry().Sub(now), minPace)
	return min(left, max(2*l.retryInterval(now), time.Second))
}

// overdueAt returns when the answer to a renewal is overdue: a sixth of the lease after it was sent.
func (l *lease) overdueAt() clock.Instant { return l.asked.Add(l.duration / 6) }

var errOverdue = fmt.Errorf("%w: no answer to a renewal yet", core.ErrUnavailable)

// reportRenewal returns a function that reports a renewal, or its error, to the holders. It is called with no mutex held.
func (l *lease) reportRenewal(err error) func() {
	holds := slices.Collect(l.holds.All())
	return func() {
		for _, h := range holds {
			h.Req.Events.Renewed(err)
		}
	}
}

// renewalDuration returns the lease that a renewal sets if it is sent now.
func (l *lease) renewalDuration() time.Duration {
	if h := l.holds.First(); h != nil && h.Req.Fixed {
		return max(clock.Until(h.Since.Add(l.duration)), time.Millisecond)
	}
	return l.duration
}

// Prepare prepares a renewal by the watchdog.
func (l *lease) Prepare() *transport.Call {
	c := l.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	l.paced = false
	if l.over {
		return nil
	}
	duration := l.renewalDuration()
	q := c.snapshot()
	var k *transport.Call
	n := l.renewal(duration)
	k = n.Call(c.e.sender.Context(), c.e.scripts, func(a *transport.Reply) { k.AfterBatch = l.onRenewed(a, duration, q) })
	k.Timeout = l.renewalTimeout(clock.Now())
	return k
}

// Drop implements transport.Paced. The next renewal is already scheduled.
func (l *lease) Drop() {
	l.c.shard.mu.Lock()
	l.paced = false
	l.c.shard.mu.Unlock()
}

// renewal prepares an execution of renew.lua.
func (l *lease) renewal(duration time.Duration) script.Renew {
	return script.Renew{Keys: &l.c.keys, ID: l.id, Lease: duration}
}

// onRenewed handles the answer to a renewal for duration. It returns a function that notifies the holders, or nil. That function
// is called when all answers of the pipeline have been handled.
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
	case c.waiters.Len > 0: // the waiting readers send a request of their own
		l.checking = false
		l.stopSharing()
		if c.request != nil {
			c.request.lastErr = err // for callers whose time ends before the answer
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
	case reply.ReplicaErr != nil:
		if reply.Moved {
			l.endUnlessRenewed(clock.Now())
		}
		return reply.ReplicaErr
	}
	sent := reply.Sent
	if sent < clock.Instant(l.c.slot.movedAt.Load()) {
		return errSlotMoved
	}
	l.confirmed, l.moved, l.asked, l.overdue = true, false, 0, false
	l.takenAway = l.takenAway && sent < l.hintAt
	l.expires.Store(max(l.expires.Load(), int64(sent.Add(duration-l.c.e.cfg.margin(duration)))))
	l.renewAfter(sent, duration/3)
	if h := l.holds.First(); h != nil && h.Req.Fixed {
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

// Callers of the plain lock that wait for a holder of their own process have no ticket. For people and tools that inspect the
// lock, the process reports their number, and since when the first of them has waited if that is long. It reports with the
// acquire of the first caller, and by report_waiters.lua after a change. A ticket that several callers share reports their number
// with its acquire and its polls (rule 10 of docs/protocol.md).

// reportAfter is the longest delay between a change and its report, and reportSlack is how much earlier the report may be.
// Changes in between cost nothing.
const (
	reportAfter = script.PollInterval
	reportSlack = reportAfter / 3
)

// A waiterReporter reports the number of callers that wait behind a lease to the server. The shard's mutex guards it.
type waiterReporter struct {
	lease    *lease
	reported waiterCount  // the last report that the server has confirmed
	runs     int          // executions of report_waiters.lua so far
	timer    timers.Timer // for the next comparison with the last report
	isSet    bool         // the timer is set
}

// A waiterCount describes the callers that wait behind a lease.
type waiterCount struct {
	calls int           // unknown if the server may have a different number
	long  bool          // the first of them has waited for longWait
	since clock.Instant // when it began to wait; only if long
}

const (
	unknown  = -1
	longWait = core.SelfWaitAfter
)

// countWaiters describes the callers that wait behind the lease now.
func (c *cohort) countWaiters() waiterCount {
	now := waiterCount{calls: c.waiters.Len}
	if w := c.waiters.First(); w != nil && clock.Since(w.Began) >= longWait {
		now.long, now.since = true, w.Began
	}
	return now
}

// hasChanged reports whether a new report may be needed: now, or later if the first caller has not waited long yet.
func (t *waiterReporter) hasChanged() bool {
	w := t.lease.c.waiters.First()
	return t.reported.calls != t.lease.c.waiters.Len || w != nil && (!t.reported.long || t.reported.since != w.Began)
}

// startReporter begins reports for the lease. reported is the number that the server has.
func (c *cohort) startReporter(reported int) {
	if c.kind != passing {
		return // other callers have tickets
	}
	c.reporter = &waiterReporter{lease: c.lease, reported: waiterCount{calls: reported}}
	c.reporter.timer.SetOwner(c.reporter)
}

// planReport makes sure that the server receives the number of callers behind the lease.
func (c *cohort) planReport() {
	if c.reporter == nil {
		c.startReporter(0)
	}
	if t := c.reporter; t != nil && !t.isSet && t.hasChanged() {
		t.isSet = true
		c.e.schedule.SetAfter(&t.timer, reportAfter, reportSlack)
	}
}

// stopReporter ends the reports with the lease.
func (c *cohort) stopReporter() {
	if c.reporter != nil {
		c.e.schedule.Remove(&c.reporter.timer)
		c.reporter = nil
	}
}

// Due adds an execution of report_waiters.lua to the round, unless the server has the number of waiters already.
func (t *waiterReporter) Due() {
	l, c, e := t.lease, t.lease.c, t.lease.c.e
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	if l.over || !t.hasChanged() {
		t.isSet = false
		return
	}
	now := clock.Now()
	e.schedule.Set(&t.timer, now.Add(reportAfter), reportSlack) // whether or not this report is answered
	waiting := c.countWaiters()
	if t.reported == waiting {
		return
	}
	t.reported.calls = unknown
	t.runs++
	n := script.ReportWaiters{Keys: &c.keys, ID: l.id, Calls: waiting.calls, Number: t.runs}
	if waiting.long {
		n.Waited = now.Sub(waiting.since)
	}
	k := n.Call(e.sender.Context(), e.scripts, func(a *transport.Reply) { t.onReported(a, waiting, n.Number) })
	k.Timeout = script.PollInterval
	e.round.reports = append(e.round.reports, k)
}

// onReported handles the answer to an execution of report_waiters.lua. If the lease is gone from the server, its renewal will
// find that out.
func (t *waiterReporter) onReported(a *transport.Reply, waiting waiterCount, run int) {
	t.lease.c.shard.mu.Lock()
	defer t.lease.c.shard.mu.Unlock()
	if _, err := script.EndedAnswer(a); err == nil && run == t.runs {
		t.reported = waiting
	}
}

// The replicas that have acknowledged a hold belong to one master. If the slot moves to another master, the hold is not safe
// until that master's replicas also have it (rule 21 of docs/protocol.md). So a process that requires replicas subscribes in each
// slot in which it holds locks: the node ends the subscription when the slot leaves it.

// movedGrace is how long a hold counts after its slot has moved, until it is acknowledged again. It is less than the time in
// which a master is replaced.
const movedGrace = time.Second

var errSlotMoved = fmt.Errorf("%w: the slot has moved to a master whose replicas have not acknowledged it yet", core.ErrUnavailable)

// followsSlots reports whether holds depend on which master has their slots.
func (e *Engine) followsSlots() bool { return e.cfg.Replicas.Count > 0 && e.topology.Cluster }

// onSlotsMoved renews the leases in slots that have left a node. If the node is still a master, its replicas have not taken its
// place: they need not be replicas of the slots' new master.
func (e *Engine) onSlotsMoved(from *redis.Client, inboxes []*inbox.Inbox) {
	if !e.followsSlots() || from == nil {
		return
	}
	now := clock.Now()
	elsewhere := e.sender.IsMaster(from)
	left := make(map[*inbox.Inbox]bool)
	for _, b := range inboxes {
		left[b] = true
	}
	for _, l := range e.ids.leases() {
		if !left[l.c.slot.inbox] {
			continue
		}
		l.c.shard.mu.Lock()
		if elsewhere {
			l.c.slot.movedAt.Store(int64(now))
			l.endUnlessRenewed(now)
		} else if !l.over {
			l.planRenewal(now)
		}
		l.c.shard.mu.Unlock()
	}
}

// endUnlessRenewed makes the lease end soon unless it is renewed. Its slot has moved, and the replicas there may not have it.
func (l *lease) endUnlessRenewed(now clock.Instant) {
	if l.over || l.moved {
		return
	}
	l.moved = true
	l.expires.Store(min(l.expires.Load(), int64(now.Add(movedGrace))))
	l.planRenewal(now)
}

// listen subscribes so that the process receives word when the slot of the lease moves.
func (l *lease) listen(sent clock.Instant) {
	e, s := l.c.e, l.c.slot
	if !e.followsSlots() {
		return
	}
	l.listens = true
	s.inbox.Listeners.Add(1)
	e.inboxes.Use(s.inbox)
	if sent < clock.Instant(s.movedAt.Load()) {
		l.endUnlessRenewed(clock.Now())
	}
}
