package engine

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// A cohort is the callers of this process that want one key and share one ticket in Redis, in the order of
// their calls. Callers of the plain lock pass it on to one another without a round trip, as long as they
// have tokens for it: lock cohorting, after Dice, Marathe and Shavit, "Lock Cohorting: A General Technique
// for Designing NUMA Locks" (2012). Readers share a lease. Every other caller is a cohort of its own, which
// keeps the order strict (rules 10 and 11 of docs/protocol.md). The shard's mutex guards a cohort, which exists
// while it is used.
type cohort struct {
	e        *Engine
	shard    *shard
	id       cohortID
	keys     script.KeySet
	slot     *slot
	siblings *siblings // of the same key; nil for the plain lock

	waiters    waiterList
	request    *request // sent, and not granted yet
	lease      *lease   // granted
	sentAt     instant  // when a request, a renewal for joining readers or a release was sent
	tally      *tally   // of the lease; nil: nobody has waited behind it
	tokenBlock int32    // how many passes the last uncontended grant had tokens for
	releasing  *release // on its way; nil: none
	raising    bool     // raise.lua is on its way
	raises     int8     // runs of it since the last grant
	doubt      doubt    // about a holder of this process
}

// A cohortID says which callers are one cohort.
type cohortID struct {
	key   string
	group uint64 // 0 for the plain lock
}

// sharing is a bit of the groups of readers that share a lease.
const sharing = 1 << 63

// cohortOf returns which cohort r belongs to. A vote has one of its own. Readers with the same terms are one cohort, whose group is a
// hash of the terms. If two hashes are the same by chance, a lease is renewed for the terms of the next
// reader.
func (e *Engine) cohortOf(r *core.Request) cohortID {
	id := cohortID{key: r.Key}
	switch {
	case r.Mode == core.Exclusive && r.Vote == nil:
	case r.Mode == core.Read && !r.Fixed && r.MinHold == 0:
		id.group = sharing | maphash.Comparable(e.seed, [2]time.Duration{r.Lease, r.MaxHold})
	case r.Mode == core.Permit:
		id.group = permitting | e.soloCohorts.Add(1)
	default:
		id.group = e.soloCohorts.Add(1)
	}
	return id
}

// isShared reports whether the callers are readers that share a lease.
func (c *cohort) isShared() bool { return c.id.group&sharing != 0 }

// unlock unlocks the shard. It removes the cohort if that has nothing to do.
func (c *cohort) unlock() {
	if c.lease != nil && (c.waiters.n > 0 || c.tally != nil) {
		c.keepTally()
	}
	c.removeIfIdle()
	c.shard.mu.Unlock()
}

// removeIfIdle removes the cohort if it has nothing to do.
func (c *cohort) removeIfIdle() {
	if c.waiters.n == 0 && c.request == nil && c.lease == nil && c.releasing == nil && c.shard.cohorts[c.id] == c {
		delete(c.shard.cohorts, c.id)
		c.leaveSiblings()
	}
}

// enqueue queues w, and prepares a request if the cohort has none. It returns an error if w may not wait.
func (c *cohort) enqueue(w *waiter, at moment) error {
	if c.e.closing.Load() {
		return &core.AcquireError{Err: core.ErrClosed}
	}
	if w.req.Wait == 0 {
		if holders, held := c.knownHolders(at); held {
			return busy(holders)
		}
	}
	switch waiting := c.waiting(); {
	case w.isHurried() && c.releasing != nil && c.releasing.lastErr != nil:
		return &core.AcquireError{Err: transport.Failure(c.releasing.lastErr)} // nobody gets the lock before the release
	case w.req.MaxWaiters > 0 && waiting >= w.req.MaxWaiters:
		holders, _ := c.knownHolders(at)
		return tooMany(waiting, holders)
	}
	c.e.probed.Do(c.e.probe)
	c.waiters.push(w)
	c.siblings.addWaiting(1)
	if l := c.lease; l != nil && c.isShared() {
		if l.contended {
			l.stopSharing()
		} else {
			l.checkForWriters()
		}
		return nil
	}
	if w.isHurried() {
		c.hurry()
	}
	if r := c.newRequest(nil); r != nil {
		w.send = r.call()
	}
	return nil
}

func tooMany(waiting int, holders []core.Holder) *core.AcquireError {
	return &core.AcquireError{Err: fmt.Errorf("%w: %d wait already", core.ErrTooManyWaiters, waiting), Holders: holders}
}

// knownHolders returns the holders as far as they are known, and whether the lock is certainly held.
func (c *cohort) knownHolders(at moment) (holders []core.Holder, held bool) {
	switch {
	case c.lease != nil && c.isShared():
		return nil, false // it may be shared
	case c.lease != nil:
		return c.localHolder(at), true
	case c.request != nil:
		return c.request.holders, c.request.queued || c.request.predecessor != nil && !c.isShared()
	}
	return nil, false
}

// localHolder describes the holder in this process.
func (c *cohort) localHolder(at moment) []core.Holder {
	h, now := c.lease.holds.First(), at.now
	return []core.Holder{{
		Owner: h.req.Owner, Process: c.e.process, TraceParent: h.req.Trace, Token: h.token,
		Since: at.timeOf(h.since), TTL: max(0, instant(c.lease.expires.Load())-now),
		Label: h.req.Label, Fixed: h.req.Fixed, MinRest: max(0, h.req.MinHold-(now-h.since)),
	}}
}

// busy returns the error of a caller that the holders are in the way of.
func busy(holders []core.Holder) *core.AcquireError {
	return &core.AcquireError{Err: core.ErrBusy, Holders: holders, RetryAfter: core.RetryAfter(holders)}
}

// sendRequest sends a request for the first waiter, if one is needed. p is what the request replaces, or nil.
func (c *cohort) sendRequest(p *script.Predecessor) {
	if r := c.newRequest(p); r != nil {
		c.e.sender.Start(r.call())
	}
}

// newRequest returns the request for the first waiter; nil if there is one already or none is needed.
func (c *cohort) newRequest(p *script.Predecessor) *request {
	if c.request != nil || c.lease != nil || c.releasing != nil || c.raising {
		return nil
	}
	lead := c.leader()
	if lead == nil {
		if p != nil {
			c.e.cancelID(c.keys, c.predecessorTarget(p))
		}
		return nil
	}
	r := &request{
		c: c, id: c.e.newID(), leader: lead, predecessor: p,
		queues: c.waiters.n > c.waiters.tries, snapshot: c.snapshot(),
		seen: c.slot.greatest.Load(),
	}
	r.timer.owner = r
	c.request, c.sentAt = r, c.e.now()
	c.e.ids.set(r.id, r)
	return r
}

// leader returns the first waiter that is not about to leave, nil if there is none.
func (c *cohort) leader() *waiter {
	for w := range c.waiters.All() {
		if !w.ended() {
			return w
		}
	}
	return nil
}

// tokensWanted returns how many tokens to request if the lock is free, and if it is granted later: one for
// the hold, and one for each pass within the process. The block doubles each time while no other process
// wants the lock, but only while a message could say that one does.
func (c *cohort) tokensWanted() (free, queued int) {
	passes := c.e.cfg.LocalPasses
	if lead := c.leader(); lead != nil && lead.req.Vote != nil {
		return c.votesWanted(lead.req.Vote)
	}
	if c.waiters.n <= 1 || passes == 0 || c.isShared() {
		c.tokenBlock = 0
		return 1, 1
	}
	c.e.inboxes.use(c.slot.inbox)
	if !c.slot.inbox.isLive() {
		return 1 + passes, 1 + passes
	}
	block := min(max(64, 2*c.waiters.n, 2*int(c.tokenBlock)), maxTokenBlock)
	c.tokenBlock = int32(block)
	return 1 + block, 1 + passes
}

// maxTokenBlock is how many passes have tokens at most. So many take longer than a round trip, whose cost
// then disappears.
const maxTokenBlock = 4096

// onGranted makes a lease of a granted request and gives it to the first waiter. then is when the call was
// sent that the server answered. The lease is good until the time given. confirmed says that the server has
// set the whole lease; otherwise it has set the accept window.
func (c *cohort) onGranted(r *request, g script.Grant, then, until instant, confirmed bool) {
	e, now := c.e, c.e.now()
	r.provesLoss()
	switch {
	case c.waiters.n == 0:
		c.detach(r)
		e.cancelID(c.keys, r.target(r.id.Copied()))
		return
	case now >= until:
		r.onLate()
		return
	case r.isOld(g):
		r.onOldToken()
		return
	}
	c.noteToken(g.Token + g.Tokens - 1)
	c.raises = 0
	l := &lease{
		c: c, id: r.id, mode: r.leader.req.Mode, duration: r.lease(), confirmed: confirmed,
		first: g.Token, next: g.Token, last: g.Token + g.Tokens - 1, grantedAt: now,
		contended: g.Waiting > 0 || r.contended, slots: g.Slots,
	}
	if l.contended {
		c.tokenBlock = 0
	}
	l.timer.owner = l
	l.expires.Store(int64(until))
	l.renewAfter(now, (until-now)/3)
	l.listen(then)
	c.detachKeepingID(r)
	c.lease = l
	if r.several {
		c.startTally(l, unknown)
	}
	c.siblings.addLease(l)
	e.identity.used(now)
	e.ids.set(l.id, l) // replaces r: a push that comes now must find one of them
	if c.isShared() {
		c.admit(l, c.waiters.joined) // all waiters, even if a writer waits
		l.onChecked(then, r.snapshot)
		return
	}
	c.giveToFirst(l, now)
	if c.waiters.n == 0 {
		return
	}
	holders := c.localHolder(c.e.moment())
	c.failTryLocks(busy(holders), c.waiters.joined)
	c.notifyWaiters(core.Wait{Holders: holders})
}

// notifyWaiters lets every waiter know what it waits for.
func (c *cohort) notifyWaiters(wait core.Wait) {
	for w := range c.waiters.All() {
		w.notify(wait)
	}
}

// detach takes r and its id off the tables.
func (c *cohort) detach(r *request) {
	c.detachKeepingID(r)
	c.e.ids.remove(r.id)
}

// detachKeepingID takes r off the cohort. Its id stays known.
func (c *cohort) detachKeepingID(r *request) {
	if r.queued && !r.over {
		r.addQueued(-1)
	}
	r.over = true
	c.e.schedule.remove(&r.timer)
	if c.request == r {
		c.request = nil
	}
}

// giveToFirst gives the lease to the first waiter, with the next token.
func (c *cohort) giveToFirst(l *lease, now instant) {
	w := c.waiters.pop()
	c.siblings.addWaiting(-1)
	h := l.newHold(w.req, now)
	l.next++
	w.finish(h, nil)
}

// passOn gives the lease to the next waiter of this process, if tokens and bounds allow it.
func (c *cohort) passOn(l *lease, now instant) bool {
	w := c.waiters.First()
	if w == nil || l.isRead() || l.next > l.last || l.holds.First().req.Fixed || l.duration != w.req.Lease || w.req.Fixed {
		return false
	}
	if !l.isFresh(now) {
		return false
	}
	if l.contended {
		l.passes++
		if l.passes > c.e.cfg.LocalPasses || now-l.grantedAt > l.duration/3 {
			return false
		}
	}
	l.holds.Remove(l.holds.First())
	c.giveToFirst(l, now)
	return true
}

// removeWaiter takes w off the waiters.
func (c *cohort) removeWaiter(w *waiter) {
	c.waiters.remove(w)
	c.siblings.addWaiting(-1)
}

// failWaiters ends all waits with err.
func (c *cohort) failWaiters(err error) {
	for c.waiters.n > 0 {
		c.siblings.addWaiting(-1)
		c.waiters.pop().finish(nil, err)
	}
}

// failTryLocks ends the waits of callers that only try. Those that joined later than the given number are
// left alone.
func (c *cohort) failTryLocks(err error, joined int64) {
	for w := range c.waiters.All() {
		if c.waiters.tries == 0 || w.seq > joined {
			return
		}
		if w.tryCount() == 1 {
			c.removeWaiter(w)
			w.finish(nil, err)
		}
	}
}

// failAll ends all waits with err, and cancels what is not needed then.
func (c *cohort) failAll(err error) {
	c.failWaiters(err)
	c.cancelIfUnwanted()
	c.cancelLeaseIfUnused()
}

// cancelIfUnwanted cancels the request if no caller waits for it any more.
func (c *cohort) cancelIfUnwanted() {
	if r := c.request; r != nil && c.waiters.n == 0 {
		c.detach(r)
		if r.outage.paused {
			r.forget() // nothing of it is on the way
		} else {
			r.cancel()
		}
	}
}
