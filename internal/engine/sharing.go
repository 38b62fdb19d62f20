package engine

import (
	"strings"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// Readers of one process share a lease. More readers join it without a command as long as no writer waits. An answer that no
// writer waits is valid for a short time, and only while a message would reach the process if a writer came. After that the next
// reader renews the lease, and the answer says it again. When a writer waits, no more readers join: they send a request of their
// own, which is queued (rule 12 of docs/protocol.md).

// shareFor is how long an answer that no writer waits is valid.
const shareFor = 100 * time.Millisecond

// joinLease gives r a share in the lease of its cohort, or returns nil if that needs a command.
func (c *cohort) joinLease(r *core.Request) *hold {
	l := c.lease
	if l == nil || !c.isShared() || c.waiters.Len > 0 || c.e.closing.Load() {
		return nil
	}
	now := clock.Now()
	if now >= l.shareUntil || l.subscription != c.slot.inbox.Subscription() || !l.isFresh(now) {
		return nil
	}
	return l.newHold(r, l.tokens.Next(), now)
}

// checkForWriters renews the lease immediately. The answer shows whether more readers may join.
func (l *lease) checkForWriters() {
	e := l.c.e
	e.inboxes.Use(l.c.slot.inbox)
	if !l.checking {
		l.checking, l.c.sentAt = true, clock.Now()
		l.planRenewal(l.c.sentAt)
	}
}

// A snapshot is the state of a cohort when a call was sent that asks whether a writer waits.
type snapshot struct {
	joined       int64 // callers that had joined the cohort
	subscription int64 // the number of the subscription; 0: none
}

func (c *cohort) snapshot() snapshot {
	return snapshot{c.waiters.Joined, c.slot.inbox.Subscription()}
}

// admit gives waiters a share in the lease, up to the given number in the order of arrival. Later ones continue to wait.
func (c *cohort) admit(l *lease, joined int64) {
	for c.waiters.Len > 0 && c.waiters.First().Seq <= joined {
		w := c.waiters.First()
		c.finish(w, l.newHold(w.Req, l.tokens.Next(), clock.Now()), nil)
	}
}

// onChecked handles an answer that shows whether a writer waits: one does if the lease is contended. The call was sent at the
// given time, and q is the snapshot from then.
func (l *lease) onChecked(sent clock.Instant, q snapshot) {
	c := l.c
	l.checking = false
	switch {
	case l.contended:
		l.stopSharing()
		return
	case c.lease != l:
		return
	}
	if q.subscription != 0 {
		l.shareUntil, l.subscription = sent.Add(shareFor), q.subscription
	}
	if clock.Now() < sent.Add(shareFor) {
		q.joined = c.waiters.Joined // the answer is also valid for callers that have joined since
	}
	c.admit(l, q.joined)
	if c.waiters.Len > 0 {
		l.checkForWriters()
	}
}

// stopSharing admits no more readers to the lease. If the lease was kept for waiting readers and has no hold, the request of
// these readers ends it. A separate release might be late, and the lock would be busy although no caller holds it.
func (l *lease) stopSharing() {
	c := l.c
	l.shareUntil = 0
	if c.lease != l {
		return
	}
	c.lease = nil
	var p *script.Predecessor
	if l.holds.First() == nil {
		l.detach(nil)
		p = &script.Predecessor{ID: l.id, Lease: l.duration}
	}
	c.sendRequest(p)
}

// A grantBatch is the callers of this process whose tickets are queued directly behind the lease's ticket, in strict order. The
// server has reserved a token for each. The lease passes from one to the next without a command, in the order of the queue. Their
// tickets stay in the queue until they have been served, so a loss costs no caller its place (rule 25 of docs/protocol.md). The
// lease stays in the first caller's cohort. The shard's mutex guards a grantBatch.
type grantBatch struct {
	lease    *lease
	next     []*request   // members to whom the lease may be passed
	served   []*request   // members to whom it was passed
	removed  int          // served members that the server has removed from the queue
	removing bool         // a removal is in flight
	closed   bool         // the lease is not passed on any more
	timer    timers.Timer // for the next removal of served members
	timerSet bool
}

const (
	// maxServed limits the served tickets that stay in the queue until they are removed, and servedFor is how long they stay
	// there. Positions and an Inspector may be off by that much.
	maxServed = 8
	servedFor = 20 * time.Millisecond
)

// mayBatch reports whether a ticket of r may be in a grant batch. A hold that ends in a different way than by a plain release may
// not. Nor may the hold of a job, whose id is used for one hold. A grant that replicas have to acknowledge is confirmed by an
// answer that names no batch.
func (e *Engine) mayBatch(r *core.Request) bool {
	return (r.Mode == core.Fair || r.Mode == core.Write) && r.Vote == nil && e.cfg.Replicas.Count == 0 &&
		!r.Fixed && r.MinHold == 0 && r.MaxHold == 0 && r.Place == "" && r.KeepPlace == 0 && !r.Once && !r.Leads && r.Record == nil
}

// startGrantBatch records the calls that the lease may be passed to. ids are their ids as in the message, separated by commas.
func (l *lease) startGrantBatch(ids string) {
	c := l.c
	if ids == "" {
		return
	}
	n := &grantBatch{lease: l}
	n.timer.SetOwner(n)
	for id := range strings.SplitSeq(ids, ",") {
		r, ok := c.e.find(id).(*request)
		if !ok || r.c.entry != c.entry {
			break
		}
		r.loseEarlierLease() // of an earlier batch, which the server has ended before this grant
		r.grantBatch = n
		n.next = append(n.next, r)
	}
	if len(n.next) > 0 {
		l.grantBatch = n
	}
}

// passInBatch passes the lease from h to the next member of its batch. It reports whether it did.
func (l *lease) passInBatch(h *hold, now clock.Instant) bool {
	n := l.grantBatch
	if n == nil || n.closed || len(n.next) == 0 || l.tokens.IsEmpty() || !l.isFresh(now) || l.isPassedLong(now) ||
		l.c.greatest > l.tokens.Last() { // the server has granted the key since
		return false
	}
	r := n.next[0]
	if r.over || !r.queued || r.lease() != l.duration || r.leader.Req.Mode != l.mode {
		n.closed = true
		return false
	}
	n.next = n.next[1:]
	n.take(r, now)
	l.holds.Remove(h)
	w := r.c.waiters.First()
	r.c.removeWaiter(w)
	r.c.removeIfIdle()
	w.Finish(l.newHold(w.Req, l.tokens.Take(), now), nil)
	return true
}

// take records that the lease serves r. The id of r stays in the table: a grant of it would prove that the lease is lost.
func (n *grantBatch) take(r *request, now clock.Instant) {
	c := n.lease.c
	r.c.detachKeepingID(r)
	n.served = append(n.served, r)
	c.shard.released.note(r.c.lockKey(), r.id.Number(), now)
	if r.id.Copied() {
		r.cancel() // a copy of its acquire may arrive after its ticket is gone
	}
	switch waiting := len(n.served) - n.removed; {
	case waiting >= maxServed:
		n.removeServed()
	case !n.removing:
		n.removeServedLater()
	}
}

// removeServedLater schedules the removal of served members.
func (n *grantBatch) removeServedLater() {
	if e := n.lease.c.e; !n.timerSet {
		n.timerSet = true
		e.schedule.SetAfter(&n.timer, servedFor, servedFor/4)
	}
}

// removeServed removes served members from the queue, in the background.
func (n *grantBatch) removeServed() {
	l, e := n.lease, n.lease.c.e
	if n.removing || l.over || len(n.served) == n.removed {
		return
	}
	n.removing = true
	upTo, ids := len(n.served), n.servedIDs(n.removed)
	off := script.Cancel{Keys: &l.c.keys, ID: ids[0], Served: ids[1:]}
	k := off.Call(e.sender.Context(), e.scripts, func(a *transport.Reply) { n.onServedRemoved(upTo, a) })
	k.Limit = cancelTimeout
	e.sender.Start(k)
}

// onServedRemoved handles the answer to that removal. After an error they are removed later, or with the lease.
func (n *grantBatch) onServedRemoved(upTo int, a *transport.Reply) {
	c := n.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	n.removing = false
	outcome, err := script.EndedAnswer(a)
	if err == nil {
		n.removed = upTo
	}
	if outcome == script.More {
		c.e.pollForRest(c.keys, false)
	}
	if !n.lease.over && len(n.served) > n.removed {
		n.removeServedLater()
	}
}

// Due removes served members.
func (n *grantBatch) Due() {
	c := n.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	n.timerSet = false
	n.removeServed()
}

// servedIDs returns the ids of the served members without the first from.
func (n *grantBatch) servedIDs(from int) []string {
	ids := make([]string, 0, len(n.served)-from)
	for _, r := range n.served[from:] {
		ids = append(ids, r.id.String())
	}
	return ids
}

// end is called when the lease has ended. Grants of the members' ids then prove nothing.
func (n *grantBatch) end() {
	e := n.lease.c.e
	e.schedule.Remove(&n.timer)
	for _, r := range n.served {
		e.ids.remove(r.id)
	}
}

// loseEarlierLease is called when the server has granted the lock to r. If r is a member of another lease's batch, the server
// must have ended that lease: it is lost, and its holder is notified immediately.
func (r *request) loseEarlierLease() {
	if r.grantBatch == nil || r.grantBatch.lease.over {
		return
	}
	l := r.grantBatch.lease
	r.c.e.notifyLostAsync(l.lose(errDeleted))
	l.c.removeIfIdle()
}

// A permit of a semaphore is a lease of its own, as with a fair lock. The differences are the scripts, that a key has several
// leases at a time, and that each lease has slots (rule 26 of docs/protocol.md).

// isPermit reports whether the caller wants or holds a permit.
func (c *cohort) isPermit() bool { return c.kind == permit }

// Slots implements core.PermitHold.
func (h *hold) Slots() []int {
	slots, _ := core.ParseSlots(h.lease.slots) // parsed once before
	return slots
}

// isWhole reports whether a grant contains everything that its hold needs: a message leaves out a long list of slots.
func (r *request) isWhole(g script.Grant) bool { return !r.c.isPermit() || g.Slots != "" }

// firstEnd returns how much time the first holder to end has left.
func firstEnd(holders []core.Holder) time.Duration {
	if len(holders) == 0 {
		return script.PollInterval
	}
	left := holders[0].TTL
	for _, h := range holders[1:] {
		left = min(left, h.TTL)
	}
	return left
}

// noteEnd records how much time the first hold in the way has left. For permits it matters to only one ticket of this process.
func (r *request) noteEnd(left time.Duration) {
	r.ends = timers.Never
	if !r.c.isPermit() || r.isScout() {
		r.ends = clock.Now().Add(max(left, 0) + time.Millisecond)
	}
}

// isScout reports whether this request polls on behalf of all permit requests of its key.
func (r *request) isScout() bool {
	all := r.c.rareState
	if all.scout == nil {
		all.scout = r
	}
	return all.scout == r
}

// mayBeServed reports whether a poll may grant the request although no hold has ended, because a ticket in front of it has died:
// a read while others read, or a permit that fits.
func (r *request) mayBeServed() bool {
	if r.c.isPermit() {
		return r.position > 1 && r.isScout()
	}
	return r.leader.Req.Mode == core.Read && r.behindReaders
}

// addQueued adds n, 1 or -1, to the number of queued requests.
func (r *request) addQueued(n int) {
	r.c.known += n
	r.c.e.inboxes.AddWaits(r.c.slot.inbox, n)
	if !r.c.isPermit() {
		return
	}
	all := r.c.rareState
	all.queuedPermits += n
	if n < 0 && all.scout == r {
		all.scout = nil
	}
}
