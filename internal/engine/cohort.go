package engine

import (
	"fmt"
	"hash/maphash"
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A cohort is the callers of this process that want one key and can do with one ticket in Redis for
// all of them, in the order in which they asked. Those that want the plain lock pass it on among
// themselves without a round trip as far as its licence goes: lock cohorting, after Dice, Marathe and
// Shavit, "Lock Cohorting: A General Technique for Designing NUMA Locks" (2012). Readers share it. Each
// other caller, as strict order asks for, is a cohort of its own. The shard's mutex guards it; it exists
// while it is used.
type cohort struct {
	e     *Engine
	shard *shard
	id    cohortID
	name  script.KeySet
	crowd *crowd // nil for the plain lock

	waiters   waiterList
	request   *request // asked for, and not granted yet
	lease     *lease   // granted
	asked     instant  // when the server was asked for the lock or told that it is free
	licence   int      // passes that the last uncontended licence allowed
	releasing bool     // the server is being told that the lock is free
}

// A cohortID tells which callers stand together.
type cohortID struct {
	key   string
	group uint64 // 0 for the plain lock
}

// sharing is in the group of readers, and not in that of one that stands alone.
const sharing = 1 << 63

// cohortOf returns which cohort r belongs to. Readers stand with those that want the same terms, of
// which their group is a hash: should two be the same, a lease is renewed for what the next one wants.
func (e *Engine) cohortOf(r *core.Request) cohortID {
	id := cohortID{key: r.Key}
	switch {
	case r.Mode == core.Exclusive:
	case r.Mode == core.Read && !r.Fixed && r.MinHold == 0:
		id.group = sharing | maphash.Comparable(e.seed, [2]time.Duration{r.Lease, r.MaxHold})
	default:
		id.group = e.loners.Add(1)
	}
	return id
}

// shares reports whether all that wait are let in at once.
func (c *cohort) shares() bool { return c.id.group&sharing != 0 }

// unlock unlocks the shard, and forgets the cohort if it has nothing to do.
func (c *cohort) unlock() {
	if c.waiters.n == 0 && c.request == nil && c.lease == nil && !c.releasing && c.shard.cohorts[c.id] == c {
		delete(c.shard.cohorts, c.id)
		c.leaveCrowd()
	}
	c.shard.mu.Unlock()
}

// join queues w and asks for the lock if nobody of the cohort did, or says why not.
func (c *cohort) join(w *waiter) error {
	waiting := c.waiting()
	holders, held := c.inTheWay()
	switch {
	case c.e.closing.Load():
		return &core.AcquireError{Err: core.ErrClosed}
	case w.req.Wait == 0 && held:
		return busy(holders)
	case w.req.MaxWaiters > 0 && waiting >= w.req.MaxWaiters:
		return tooMany(waiting, holders)
	}
	c.e.probed.Do(c.e.probe)
	c.waiters.push(w)
	c.crowd.waits(1)
	if l := c.lease; l != nil && c.shares() {
		if l.contended {
			l.close()
		} else {
			l.ask()
		}
		return nil
	}
	if r := c.newRequest(nil); r != nil {
		w.send = r.call()
	}
	return nil
}

func tooMany(waiting int, holders []core.Holder) *core.AcquireError {
	return &core.AcquireError{Err: fmt.Errorf("%w: %d wait already", core.ErrTooManyWaiters, waiting), Holders: holders}
}

// inTheWay returns who holds the lock, as far as it is known, and whether somebody certainly does.
func (c *cohort) inTheWay() (holders []core.Holder, held bool) {
	switch {
	case c.lease != nil && c.shares():
		return nil, false // it may be shared
	case c.lease != nil:
		return c.localHolder(), true
	case c.request != nil:
		return c.request.holders, c.request.queued || c.request.former != nil
	}
	return nil, false
}

// localHolder returns the holder in this process.
func (c *cohort) localHolder() []core.Holder {
	g := c.lease.grants.First()
	return []core.Holder{{
		Owner: g.req.Owner, Process: c.e.process, TraceParent: g.req.Trace, Token: g.token,
		Since: c.e.epoch.Add(g.since), TTL: max(0, instant(c.lease.expires.Load())-c.e.now()),
	}}
}

// busy is the error of a caller whom holders are in the way of.
func busy(holders []core.Holder) *core.AcquireError {
	err := &core.AcquireError{Err: core.ErrBusy, Holders: holders}
	if len(holders) > 0 {
		err.RetryAfter = max(0, min(holders[0].TTL, time.Second))
	}
	return err
}

// ask sends a request for the first in the queue, unless there is one already or none is needed.
func (c *cohort) ask(f *script.Predecessor) {
	if r := c.newRequest(f); r != nil {
		c.e.sender.Start(r.call())
	}
}

// newRequest returns what ask is to send, if anything.
func (c *cohort) newRequest(f *script.Predecessor) *request {
	if c.request != nil || c.lease != nil || c.releasing {
		return nil
	}
	lead := c.leader()
	if lead == nil {
		if f != nil {
			c.e.cancel(c.name, unwantedPredecessor(f))
		}
		return nil
	}
	r := &request{
		c: c, id: c.e.newID(), leader: lead, former: f,
		wait: c.waiters.n > c.waiters.tries, asked: c.inquiry(),
	}
	r.timer.owner = r
	c.request, c.asked = r, c.e.now()
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

// tokens is how many tokens to ask for, if the lock is free and if it is not: one, and one for each
// pass within the process. As long as nobody else wants the lock the number doubles each time; but
// only if others could tell this process that they wait.
func (c *cohort) tokens() (free, queued int) {
	passes := c.e.cfg.LocalPasses
	if c.waiters.n <= 1 || passes == 0 || c.shares() {
		c.licence = 0
		return 1, 1
	}
	c.e.inbox.start(c.e)
	if !c.e.inbox.live.Load() {
		return 1 + passes, 1 + passes
	}
	c.licence = min(max(64, 2*c.waiters.n, 2*c.licence), maxLicence)
	return 1 + c.licence, 1 + passes
}

// maxLicence bounds the passes of a licence: about the number that takes as long as a round trip or
// more, so that its cost disappears.
const maxLicence = 4096

// granted makes the lease of r, of which the server spoke then, and hands it to the first waiter.
// confirmed says that the server has set the whole lease; otherwise it has set the accept window, until
// which the lease is good.
func (c *cohort) granted(r *request, g script.Grant, then, until instant, confirmed bool) {
	e, now := c.e, c.e.now()
	if now >= until || c.waiters.n == 0 {
		c.leave(r)
		e.cancel(c.name, r.unwanted(r.id.Copied()))
		c.ask(nil)
		return
	}
	l := &lease{
		c: c, id: r.id, mode: r.leader.req.Mode, duration: r.lease(), confirmed: confirmed,
		next: g.Token, last: g.Token + g.Tokens - 1, granted: now,
		contended: g.Waiting > 0 || r.contended,
	}
	if l.contended {
		c.licence = 0
	}
	l.timer.owner = l
	l.expires.Store(int64(until))
	l.renewAfter(now, (until-now)/3)
	c.part(r)
	c.lease = l
	c.crowd.knows(1)
	e.ids.set(l.id, l) // in the place of r: a push that comes now must find one of them
	if c.shares() {
		c.letIn(l, c.waiters.joined) // all that wait, whoever waits to write
		l.shared(then, r.asked)
		return
	}
	c.hand(l)
	if c.waiters.n == 0 {
		return
	}
	holders := c.localHolder()
	c.failTries(busy(holders), c.waiters.joined)
	c.tellWaiters(core.Wait{Holders: holders})
}

// tellWaiters tells those who wait what they wait for.
func (c *cohort) tellWaiters(wait core.Wait) {
	for w := range c.waiters.All() {
		w.waits(wait)
	}
}

// leave ends the cohort's interest in r and its id.
func (c *cohort) leave(r *request) {
	c.part(r)
	c.e.ids.remove(r.id)
}

// part ends the cohort's interest in r.
func (c *cohort) part(r *request) {
	if r.queued && !r.over {
		c.crowd.knows(-1)
	}
	r.over = true
	c.e.schedule.remove(&r.timer)
	if c.request == r {
		c.request = nil
	}
}

// hand gives the lease to the first waiter, with the next token.
func (c *cohort) hand(l *lease) {
	w := c.waiters.pop()
	c.crowd.waits(-1)
	g := l.grant(w.req, c.e.now())
	l.next++
	w.finish(g, nil)
}

// pass hands the lease on within the process if its licence allows it.
func (c *cohort) pass(l *lease) bool {
	w := c.waiters.First()
	if w == nil || l.reads() || l.next > l.last || l.grants.First().req.Fixed || l.duration != w.req.Lease || w.req.Fixed {
		return false
	}
	now := c.e.now()
	if !l.isFresh(now) {
		return false
	}
	if l.contended {
		l.passes++
		if l.passes > c.e.cfg.LocalPasses || now-l.granted > l.duration/3 {
			return false
		}
	}
	l.grants.Remove(l.grants.First())
	c.hand(l)
	return true
}

// fail ends the waits of all.
func (c *cohort) fail(err error) {
	for c.waiters.n > 0 {
		c.crowd.waits(-1)
		c.waiters.pop().finish(nil, err)
	}
}

// failTries ends the waits of those that only try, up to the one that joined as the given.
func (c *cohort) failTries(err error, joined int64) {
	for w := range c.waiters.All() {
		if c.waiters.tries == 0 || w.turn > joined {
			return
		}
		if w.tries() == 1 {
			c.waiters.remove(w)
			c.crowd.waits(-1)
			w.finish(nil, err)
		}
	}
}

// failAll ends all waits and what is asked for.
func (c *cohort) failAll(err error) {
	c.fail(err)
	c.withdrawIfUnwanted()
	c.releaseIfUnused()
}

// withdrawIfUnwanted cancels the request if nobody waits for it any more.
func (c *cohort) withdrawIfUnwanted() {
	if r := c.request; r != nil && c.waiters.n == 0 {
		c.leave(r)
		r.undo()
	}
}

// giveUp takes w off the queue, because its time is over or its context ended; if it was granted the
// lock in this instant, that is passed on.
func (c *cohort) giveUp(w *waiter, ended error) error {
	c.shard.mu.Lock()
	if w.grant != nil {
		g := w.grant
		g.unused = true
		c.shard.mu.Unlock()
		_, _ = g.Release(giveUpPatience) // what fails is tried again in the background
		if ended == nil {
			return busy(nil)
		}
		return &core.AcquireError{Err: fmt.Errorf("%w: %w", core.ErrBusy, ended)}
	}
	if w.err != nil {
		c.shard.mu.Unlock()
		return w.err
	}
	err := c.waitError(ended)
	c.waiters.remove(w)
	c.crowd.waits(-1)
	c.withdrawIfUnwanted()
	c.releaseIfUnused()
	c.ask(nil)
	c.unlock()
	return err
}

// giveUpPatience is how long a cancelled call may take to pass on a lock it was granted meanwhile.
const giveUpPatience = 30 * time.Millisecond

// slowAnswer is after how long a server that has not said anything is in trouble. A caller whose time
// is over sooner is told that the lock is busy.
const slowAnswer = 50 * time.Millisecond

// waitError is what a caller is told whose wait ended, with its context if ended is not nil: that the
// lock is busy, or that the server did not say so.
func (c *cohort) waitError(ended error) error {
	holders, held := c.inTheWay()
	err := busy(holders)
	switch r := c.request; {
	case r != nil && r.trouble != nil:
		err.Err = script.Failure(r.trouble)
	case !held && c.e.now()-c.asked > slowAnswer:
		err.Err = fmt.Errorf("%w: it has not answered yet", core.ErrUnavailable)
	}
	if ended != nil {
		err.Err = fmt.Errorf("%w: %w", err.Err, ended)
	}
	return err
}
