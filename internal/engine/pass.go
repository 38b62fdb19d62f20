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

// Readers of one process share a lease. Further readers join it without a command as long as no writer
// waits. The server's word for that is good for a short time, and only while a message would reach the
// process if a writer came. After that the next reader renews the lease, and the answer says it anew. When
// a writer waits, no more readers join: they send a request of their own, which is queued (rule 12 of
// docs/protocol.md).

// shareFor is how long the server's word that no writer waits is good.
const shareFor = 100 * time.Millisecond

// joinLease gives r a share in the lease of its cohort; nil if that needs a command.
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

// checkForWriters renews the lease immediately: the answer says whether more readers may join.
func (l *lease) checkForWriters() {
	e := l.c.e
	e.inboxes.Use(l.c.slot.inbox)
	if !l.checking {
		l.checking, l.c.sentAt = true, clock.Now()
		l.planRenewal(l.c.sentAt)
	}
}

// A snapshot is what was known when a call was sent that asks whether a writer waits.
type snapshot struct {
	joined       int64 // how many callers had joined the cohort
	subscription int64 // the number of the subscription; 0: none
}

func (c *cohort) snapshot() snapshot {
	return snapshot{c.waiters.Joined, c.slot.inbox.Subscription()}
}

// admit gives waiters a share in the lease. Those that joined later than the given number go on waiting.
func (c *cohort) admit(l *lease, joined int64) {
	for c.waiters.Len > 0 && c.waiters.First().Seq <= joined {
		w := c.waiters.First()
		c.finish(w, l.newHold(w.Req, l.tokens.Next(), clock.Now()), nil)
	}
}

// onChecked deals with an answer that says whether a writer waits: one does if the lease is contended. The
// call was sent at the time given, and q is what was known then.
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
		q.joined = c.waiters.Joined // the answer is good for callers that have joined since
	}
	c.admit(l, q.joined)
	if c.waiters.Len > 0 {
		l.checkForWriters()
	}
}

// stopSharing lets no more readers join the lease. If it was kept for those who wait, and nobody reads by it any more,
// their request ends it: a release that came on its own might be late, and the lock be busy when nobody has it.
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

// cancelLeaseIfUnused cancels a lease that was kept for a caller who has gone.
func (c *cohort) cancelLeaseIfUnused() {
	if l := c.lease; l != nil && c.isShared() && c.waiters.Len == 0 && l.holds.First() == nil {
		l.detach(nil)
		l.cancel()
	}
}

// A run is the callers of this process whose tickets stand right behind that of a lease in strict order. The server has
// reserved a token for each, and the lease is passed from one to the next without a command, in the order of the
// queue. Their tickets stay in the queue until they were served: whatever gets lost costs nobody a place (rule 25 of
// docs/protocol.md). The lease stays that of the first one's cohort. The shard's mutex guards a run.
type grantBatch struct {
	lease    *lease
	next     []*request   // to whom the lease may be passed
	served   []*request   // to whom it was passed
	removed  int          // how many of those the server has taken off the queue
	removing bool         // more are being taken off
	closed   bool         // the lease is passed to nobody any more
	timer    timers.Timer // when those who were served are taken off
	timerSet bool         // the timer
}

const (
	// maxServed is how many that were served stay in the queue until they are taken off, and servedFor for how long at most:
	// so far may positions and what an Inspector is told be wrong.
	maxServed = 8
	servedFor = 20 * time.Millisecond
)

// mayBatch reports whether a ticket of r may be one of a run. A hold that ends in another way than by a plain
// release does not run, nor does that of a job, whose id is used for one hold. A grant that replicas have to have is
// confirmed by an answer that names no run.
func (e *Engine) mayBatch(r *core.Request) bool {
	return (r.Mode == core.Fair || r.Mode == core.Write) && r.Vote == nil && e.cfg.Replicas.Count == 0 &&
		!r.Fixed && r.MinHold == 0 && r.MaxHold == 0 && r.Place == "" && r.KeepPlace == 0 && !r.Once && !r.Leads
}

// startGrantBatch notes who may have the lease after its first holder, as a message says: ids separated by commas.
func (l *lease) startGrantBatch(ids string) {
	c := l.c
	if ids == "" {
		return
	}
	n := &grantBatch{lease: l}
	n.timer.Of(n)
	for id := range strings.SplitSeq(ids, ",") {
		r, ok := c.e.find(id).(*request)
		if !ok || r.c.entry != c.entry {
			break
		}
		r.loseEarlierLease() // of an earlier run, which the server has ended before it granted this one
		r.grantBatch = n
		n.next = append(n.next, r)
	}
	if len(n.next) > 0 {
		l.grantBatch = n
	}
}

// closeGrantBatch has the lease be passed to nobody any more.
func (l *lease) closeGrantBatch() {
	if l.grantBatch != nil {
		l.grantBatch.closed = true
	}
}

// passInBatch gives the lease to the next of its run, in the place of h. It reports whether it did.
func (l *lease) passInBatch(h *hold, now clock.Instant) bool {
	n := l.grantBatch
	if n == nil || n.closed || len(n.next) == 0 || l.tokens.AreUsed() || !l.isFresh(now) || now.Sub(l.grantedAt) > l.duration/3 ||
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

// take notes that r is served by the lease. Its id stays known: a grant of it would prove that the lease is lost.
func (n *grantBatch) take(r *request, now clock.Instant) {
	c := n.lease.c
	r.c.detachKeepingID(r)
	n.served = append(n.served, r)
	c.shard.released.note(r.c.lockKey(), r.id.Number(), now)
	if r.id.Copied() {
		r.cancel() // a copy of its acquire may come when its ticket is gone
	}
	switch waiting := len(n.served) - n.removed; {
	case waiting >= maxServed:
		n.removeServed()
	case !n.removing:
		n.removeServedLater()
	}
}

// removeServedLater has those who were served be taken off in a while.
func (n *grantBatch) removeServedLater() {
	if e := n.lease.c.e; !n.timerSet {
		n.timerSet = true
		e.schedule.SetAfter(&n.timer, servedFor, servedFor/4)
	}
}

// removeServed takes those who were served off the queue, in the background.
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

// onServedRemoved deals with the answer to a removeServed. If it failed they are taken off later, or with the lease.
func (n *grantBatch) onServedRemoved(upTo int, a *transport.Reply) {
	c := n.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	n.removing = false
	outcome, err := script.CancelAnswer(a)
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

// Due takes those who were served off.
func (n *grantBatch) Due() {
	c := n.lease.c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	n.timerSet = false
	n.removeServed()
}

// servedIDs returns the ids of those who were served, but for the first ones.
func (n *grantBatch) servedIDs(from int) []string {
	ids := make([]string, 0, len(n.served)-from)
	for _, r := range n.served[from:] {
		ids = append(ids, r.id.String())
	}
	return ids
}

// end is called when the lease is over. Grants of their own prove nothing any more.
func (n *grantBatch) end() {
	e := n.lease.c.e
	e.schedule.Remove(&n.timer)
	for _, r := range n.served {
		e.ids.remove(r.id)
	}
}

// loseEarlierLease ends the lease of the run that r is one of, if there is one: the server has granted the lock to r, so it
// has ended the lease. Who holds by it is told at once.
func (r *request) loseEarlierLease() {
	if r.grantBatch == nil || r.grantBatch.lease.over {
		return
	}
	l := r.grantBatch.lease
	r.c.e.tellLost(l.lose(errDeleted))
	l.c.removeIfIdle()
}

// A permit of a semaphore is a lease of its own, as that of a fair lock is. What differs are the scripts, that several
// leases of a key are there at once, and that each has slots (rule 26 of docs/protocol.md).

// isPermit reports whether its caller wants a permit, or has one.
func (c *cohort) isPermit() bool { return c.kind == permit }

// Slots implements core.PermitHold.
func (h *hold) Slots() []int {
	slots, _ := core.ParseSlots(h.lease.slots) // it was read once before
	return slots
}

// isWhole reports whether a grant says all that its hold has to know: a message leaves out long lists of slots.
func (r *request) isWhole(g script.Grant) bool { return !r.c.isPermit() || g.Slots != "" }

// firstEnd returns how much time the first of holders has left.
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

// noteEnd notes that the first of those in the way has so much time left. For permits it matters to one ticket of this process.
func (r *request) noteEnd(left time.Duration) {
	r.ends = timers.Never
	if !r.c.isPermit() || r.isScout() {
		r.ends = clock.Now().Add(max(left, 0) + time.Millisecond)
	}
}

// isScout reports whether it is this request for a permit that polls for all of its key.
func (r *request) isScout() bool {
	all := r.c.rest
	if all.scout == nil {
		all.scout = r
	}
	return all.scout == r
}

// mayBeServed reports whether a poll may grant what the request is for although no hold has ended, as a ticket in front of it has
// died: that to read while others read, and a permit that fits.
func (r *request) mayBeServed() bool {
	if r.c.isPermit() {
		return r.position > 1 && r.isScout()
	}
	return r.leader.Req.Mode == core.Read && r.behindReaders
}

// addQueued notes that there is one more queued request, or one less.
func (r *request) addQueued(n int) {
	r.c.known += n
	r.c.e.inboxes.Wait(r.c.slot.inbox, n)
	if !r.c.isPermit() {
		return
	}
	all := r.c.rest
	all.queuedPermits += n
	if n < 0 && all.scout == r {
		all.scout = nil
	}
}
