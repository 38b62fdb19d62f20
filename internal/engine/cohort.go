package engine

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/list"
	"github.com/lockmw/go/internal/localq"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// A cohort is the callers of this process that share one ticket in Redis, in the order of their calls. Callers of the plain lock
// pass it on to one another without a round trip as long as there are tokens (see localq). Readers share a lease. Every other
// caller is a cohort of its own, which keeps the order strict (rules 10 and 11 of docs/protocol.md). A cohort exists while it is
// in use. The shard's mutex guards it.
type cohort struct {
	*entry
	list.Links[*cohort]

	waiters    localq.Queue
	request    *request        // sent, and not yet granted
	lease      *lease          // granted
	sentAt     clock.Instant   // when a request, a renewal for joining readers or a release was sent
	reporter   *waiterReporter // of the lease; nil if no caller has waited behind it
	releasing  *release        // the release in flight; nil: none
	tokenBlock int32           // the number of passes in the last uncontended grant's token block
	kind       kind
	raising    bool // raise.lua is in flight
	raises     int8 // executions of raise.lua since the last grant
	over       bool // no longer in use
}

// isShared reports whether the callers are readers that share a lease.
func (c *cohort) isShared() bool { return c.kind == sharing }

// unlock unlocks the shard. It removes the cohort if it is idle.
func (c *cohort) unlock() {
	if c.lease != nil && (c.waiters.Len > 0 || c.reporter != nil) {
		c.planReport()
	}
	c.removeIfIdle()
	c.shard.mu.Unlock()
}

// removeIfIdle removes the cohort if it is idle.
func (c *cohort) removeIfIdle() {
	if c.waiters.Len == 0 && c.request == nil && c.lease == nil && c.releasing == nil && !c.over {
		c.over = true
		c.remove(c)
	}
}

// A moment is the present on both clocks. They are read once, because each call for a lock that this process holds needs both.
type moment struct {
	now  clock.Instant
	time time.Time
}

func readClock() (m moment) {
	m.time, m.now = clock.Both()
	return m
}

// enqueue queues w. If the cohort has no request yet, it returns the call that the goroutine of w has to send. It returns an
// error if w may not wait.
func (c *cohort) enqueue(w *localq.Waiter, at moment) (send *transport.Call, err error) {
	if c.e.closing.Load() {
		return nil, &core.AcquireError{Err: core.ErrClosed}
	}
	if w.OnlyTries() {
		if holders, held := c.knownHolders(at); held {
			return nil, localq.Busy(holders)
		}
	}
	switch waiting := c.waiting(); {
	case w.FailsFast() && c.releasing != nil && c.releasing.lastErr != nil:
		return nil, &core.AcquireError{Err: transport.Failure(c.releasing.lastErr)} // no caller gets the lock before that release
	case w.Req.MaxWaiters > 0 && waiting >= w.Req.MaxWaiters:
		holders, _ := c.knownHolders(at)
		return nil, localq.TooMany(waiting, holders)
	}
	c.e.probe.Schedule()
	c.waiters.Push(w)
	c.waits++
	if l := c.lease; l != nil && c.isShared() {
		if l.contended {
			l.stopSharing()
		} else {
			l.checkForWriters()
		}
		return nil, nil
	}
	if w.FailsFast() {
		c.retryNow()
	}
	if r := c.newRequest(nil); r != nil {
		return r.call(), nil
	}
	return nil, nil
}

// knownHolders returns the known holders, and whether the lock is certainly held.
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
	return []core.Holder{c.lease.holds.First().Describe(c.e.process, c.lease.expiry().Sub(at.now), at.time, at.now)}
}

// sendRequest sends a request for the first waiter, if one is needed. The request replaces p unless that is nil.
func (c *cohort) sendRequest(p *script.Predecessor) {
	if r := c.newRequest(p); r != nil {
		c.e.sender.Start(r.call())
	}
}

// newRequest returns a request for the first waiter, or nil if there is one already or none is needed.
func (c *cohort) newRequest(p *script.Predecessor) *request {
	if c.request != nil || c.lease != nil || c.releasing != nil || c.raising {
		return nil
	}
	lead := c.waiters.Leader()
	if lead == nil {
		c.cancelPredecessor(p)
		return nil
	}
	r := &request{
		c: c, id: c.e.newID(), leader: lead, predecessor: p,
		queues: c.waiters.Len > c.waiters.Tries, snapshot: c.snapshot(),
		seen: c.slot.greatest.Load(),
	}
	r.timer.SetOwner(r)
	c.request, c.sentAt = r, clock.Now()
	c.e.ids.set(r.id, r)
	return r
}

// tokensWanted returns how many tokens to request, for a lock that is free and for a later grant: one for the hold, and one for
// each pass within the process. While no other process wants the lock, the block doubles each time, but only while a message
// could announce such a process.
func (c *cohort) tokensWanted() (free, queued int) {
	passes := c.e.cfg.LocalPasses
	if lead := c.waiters.Leader(); lead != nil && lead.Req.Vote != nil {
		return c.votesWanted(lead.Req.Vote)
	}
	if c.waiters.Len <= 1 || passes == 0 || c.isShared() {
		c.tokenBlock = 0
		return 1, 1
	}
	c.e.inboxes.Use(c.slot.inbox)
	if !c.slot.inbox.IsLive() {
		return 1 + passes, 1 + passes
	}
	block := localq.NextBlock(int(c.tokenBlock), c.waiters.Len)
	c.tokenBlock = int32(block)
	return 1 + block, 1 + passes
}

// votesWanted is tokensWanted for a vote. It asks for few tokens while no message could announce another waiter.
func (c *cohort) votesWanted(v *core.Vote) (free, queued int) {
	tokens := max(v.Tokens, 1)
	if few := 1 + c.e.cfg.LocalPasses; tokens > few {
		c.e.inboxes.Use(c.slot.inbox)
		if !c.slot.inbox.IsLive() {
			tokens = few
		}
	}
	return tokens, tokens
}

// onGranted turns a granted request into a lease and gives it to the first waiter. then is when the answered call was sent or the
// message arrived, and until is the end of the lease. confirmed means that the server has set the whole lease; otherwise it has
// set the accept window.
func (c *cohort) onGranted(r *request, g script.Grant, then, until clock.Instant, confirmed bool) {
	e, now := c.e, clock.Now()
	r.loseEarlierLease()
	switch {
	case c.waiters.Len == 0:
		c.detach(r)
		e.cancelID(c.keys, r.target(r.id.Copied()))
		return
	case !now.Before(until):
		r.onLate()
		return
	case r.isStale(g):
		r.onStaleToken()
		return
	}
	c.noteToken(g.Token + g.Tokens - 1)
	c.raises = 0
	l := &lease{
		c: c, id: r.id, mode: r.leader.Req.Mode, duration: r.lease(), confirmed: confirmed,
		first: g.Token, tokens: localq.NewTokens(g.Token, g.Token+g.Tokens-1), grantedAt: now,
		contended: g.Waiting > 0 || r.contended, slots: g.Slots,
	}
	if rec := r.leader.Req.Record; rec != nil {
		l.run = &leaseRun{name: rec.Run, opened: g.Opened, token: g.RecordToken, earlier: g.Earlier}
		r.run = l.run
	}
	if l.contended {
		c.tokenBlock = 0
	}
	l.timer.SetOwner(l)
	l.expires.Store(int64(until))
	l.renewAfter(now, until.Sub(now)/3)
	l.listen(then)
	c.detachKeepingID(r)
	c.lease = l
	if r.several {
		c.startReporter(unknown)
	}
	c.known++
	c.latest = l
	e.watch.WroteGrant(now)
	e.ids.set(l.id, l) // replaces r: a push that arrives now must find one of them
	if c.isShared() {
		c.admit(l, c.waiters.Joined) // all waiters, even if a writer waits
		l.onChecked(then, r.snapshot)
		return
	}
	c.giveToFirst(l, now)
	if c.waiters.Len == 0 {
		return
	}
	holders := c.localHolder(readClock())
	c.failTryLocks(localq.Busy(holders), c.waiters.Joined)
	c.waiters.Notify(core.Wait{Holders: holders})
}

// detach removes r from the cohort, and its id from the table.
func (c *cohort) detach(r *request) {
	c.detachKeepingID(r)
	c.e.ids.remove(r.id)
}

// detachKeepingID removes r from the cohort. Its id stays in the table.
func (c *cohort) detachKeepingID(r *request) {
	if r.queued && !r.over {
		r.addQueued(-1)
	}
	r.over = true
	c.e.schedule.Remove(&r.timer)
	if c.request == r {
		c.request = nil
	}
}

// giveToFirst gives the lease to the first waiter, with the next token.
func (c *cohort) giveToFirst(l *lease, now clock.Instant) {
	w := c.waiters.First()
	c.finish(w, l.newHold(w.Req, l.tokens.Take(), now), nil)
}

// isPassedLong reports whether the process has kept the lease for so long that other processes should have their turn.
func (l *lease) isPassedLong(now clock.Instant) bool { return now.Sub(l.grantedAt) > l.duration/3 }

// passOn gives the lease to the next waiter of this process, if tokens and limits allow it.
func (c *cohort) passOn(l *lease, now clock.Instant) bool {
	w := c.waiters.First()
	if w == nil || l.isRead() || l.tokens.IsEmpty() || !localq.MayFollow(l.holds.First().Req, l.duration, w.Req) || !l.isFresh(now) {
		return false
	}
	if l.contended {
		l.passes++
		if l.passes > c.e.cfg.LocalPasses || l.isPassedLong(now) {
			return false
		}
	}
	l.holds.Remove(l.holds.First())
	c.giveToFirst(l, now)
	return true
}

// finish ends the wait of w: its call returns h, or err if h is nil.
func (c *cohort) finish(w *localq.Waiter, h core.Hold, err error) {
	c.removeWaiter(w)
	w.Finish(h, err)
}

// removeWaiter removes w from the waiters.
func (c *cohort) removeWaiter(w *localq.Waiter) {
	c.waiters.Remove(w)
	c.waits--
}

// failWaiters ends all waits with err.
func (c *cohort) failWaiters(err error) {
	for w := range c.waiters.All() {
		c.finish(w, nil, err)
	}
}

// failTryLocks ends the waits of callers that only try, up to the given number in the order of arrival.
func (c *cohort) failTryLocks(err error, joined int64) {
	for w := range c.waiters.All() {
		if c.waiters.Tries == 0 || w.Seq > joined {
			return
		}
		if w.OnlyTries() {
			c.finish(w, nil, err)
		}
	}
}

// failAll ends all waits with err, and cancels the request and lease that they leave unused.
func (c *cohort) failAll(err error) {
	c.failWaiters(err)
	c.dropUnwanted()
}

// cancelIfUnwanted cancels the request if no caller waits for it.
func (c *cohort) cancelIfUnwanted() {
	if r := c.request; r != nil && c.waiters.Len == 0 {
		c.detach(r)
		if r.outage.paused {
			r.forget() // no copy is in flight
		} else {
			r.cancel()
		}
	}
}

// refuseExcess ends the waits that exceed MaxWaiters. They were not refused immediately because the lock might have been free.
func (c *cohort) refuseExcess(holders []core.Holder) {
	waiting := c.waiting() - c.waiters.Len
	for w := range c.waiters.All() {
		if most := w.Req.MaxWaiters; most > 0 && waiting >= most {
			c.finish(w, nil, localq.TooMany(waiting, holders))
		} else {
			waiting++
		}
	}
}

var _ localq.Line = (*cohort)(nil)

// Lock implements localq.Line.
func (c *cohort) Lock() { c.shard.mu.Lock() }

// Unlock implements localq.Line.
func (c *cohort) Unlock() { c.unlock() }

// Busy implements localq.Line.
func (c *cohort) Busy() *core.AcquireError {
	holders, _ := c.knownHolders(readClock())
	return localq.Busy(holders)
}

// WaitFailed implements localq.Line: either the lock is busy, or the server has not answered.
func (c *cohort) WaitFailed(w *localq.Waiter) *core.AcquireError {
	holders, held := c.knownHolders(readClock())
	err := localq.Busy(holders)
	switch r := c.request; {
	case r != nil && r.lastErr != nil:
		err.Err = transport.Failure(r.lastErr)
	case c.releasing != nil && c.releasing.lastErr != nil:
		err.Err = transport.Failure(c.releasing.lastErr)
	case !held && clock.Since(c.sentAt) > w.Patience():
		err.Err = core.ErrNoAnswer
	}
	return err
}

// Leave implements localq.Line.
func (c *cohort) Leave(w *localq.Waiter) {
	c.removeWaiter(w)
	c.dropUnwanted()
}

// dropUnwanted cancels the request or lease that no caller waits for, and sends a request for the callers that do wait.
func (c *cohort) dropUnwanted() {
	c.cancelIfUnwanted()
	if l := c.lease; l != nil && c.isShared() && l.isUnused() { // it was kept for a caller that has left
		l.detach(nil)
		l.cancel()
	}
	c.sendRequest(nil)
}

// GiveBack implements localq.Line.
func (c *cohort) GiveBack(h core.Hold) {
	c.Lock()
	h.(*hold).Abandoned = true
	c.Unlock()
	_, _ = h.Release(localq.GiveUpPatience) // a failed release is retried in the background
}
