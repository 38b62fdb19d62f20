package engine

import (
	"time"

	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// A request is one id's way to the lock: acquire.lua is sent, and answered with a grant or a place in
// the queue, from which a push or a poll brings the grant. The shard's mutex guards it.
type request struct {
	c      *cohort
	id     *script.ID
	leader *waiter // on whose behalf it is sent
	former *script.Predecessor
	wait   bool // queue if the lock is not free
	asked  inquiry

	over     bool            // granted, failed, or no longer wanted
	queued   bool            // the server has a ticket of it
	stamp    int64           // the fencing counter when the server last said so
	acceptBy instant         // until when a push newer than that may be relied on
	place    int64           // in the server's order of tickets
	holders  []core.Holder   // who was in the way then
	push     *script.Message // came before the answer to acquire.lua

	contended bool  // a message said that others wait, before an answer that it is granted
	trouble   error // of the last poll, or of the renewal before it
	timer     timer // the next poll, or the next try while a Cluster moves the slot
}

// send runs acquire.lua again.
func (r *request) send() { r.c.e.sender.Start(r.call()) }

// call prepares a run of acquire.lua.
func (r *request) call() *script.Call {
	c, e := r.c, r.c.e
	asked := r.leader.req
	free, queued := c.tokens()
	if !r.wait {
		queued = 0
	}
	keep := asked.Keep
	if keep > 0 {
		keep += min(asked.Wait, maxWaitKept)
	}
	a := script.Acquire{
		Keys: &c.name, ID: r.id, Lease: r.lease(), Owner: asked.Owner, Mode: asked.Mode, Trace: asked.Trace,
		Inbox: e.inbox.address, Subscribed: e.inbox.live.Load(), Tokens: free, QueueTokens: queued,
		Predecessor: r.former, Place: asked.Ticket, KeepPlace: keep,
	}
	return a.Call(r.leader.ctx, e.scripts, r.answered)
}

// maxWaitKept is for how long of its wait the place of a call is kept whose process is killed.
const maxWaitKept = 10 * time.Minute

// answered deals with the answer to acquire.lua.
func (r *request) answered(reply *script.Reply) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	if r.over {
		if reply.Err == nil || !script.IsReply(reply.Err) {
			r.undo() // the first one may have overtaken the acquire
		}
		return
	}
	a, err := reply.Acquired(c.e.layout.InboxPrefix())
	if err != nil {
		r.failed(err)
		return
	}
	switch a.Outcome {
	case script.Held:
		c.granted(r, a.Grant, c.e.instant(reply.Sent), r.until(reply.Sent), true)
	case script.Queued:
		r.place = a.Place
		if !r.wait {
			r.busy(a.Wait.Holders)
			return
		}
		r.isQueued(reply.Sent, a.Stamp, a.Wait)
		if p := r.push; p != nil && !r.over {
			r.pushed(p)
		}
	case script.Again:
		r.send()
	default: // the id is over; it must not be used again
		c.leave(r)
		c.ask(nil)
	}
}

// busy ends a request that was not to be queued.
func (r *request) busy(holders []core.Holder) {
	c := r.c
	c.leave(r)
	if r.id.Copied() {
		r.undo() // the other copy may still arrive
	}
	c.failTries(busy(holders), r.asked.joined)
	c.ask(nil) // for those that have come meanwhile: to them the answer may be old
}

// failed ends the request, or tries again where that helps.
func (r *request) failed(err error) {
	c := r.c
	if script.IsMoving(err) {
		c.e.schedule.set(&r.timer, c.e.now()+movingDelay, 0)
		return
	}
	c.leave(r)
	if copies := r.id.Copies(); copies > 1 || copies == 1 && !script.IsReply(err) {
		r.undo()
	} else if r.former != nil {
		c.e.cancel(c.name, unwantedPredecessor(r.former))
	}
	if !r.leader.ended() {
		c.fail(&core.AcquireError{Err: script.Failure(err)})
	}
	c.ask(nil)
}

// movingDelay is the pause between tries while a Cluster moves a slot.
const movingDelay = 20 * time.Millisecond

// lease is what the caller asked for.
func (r *request) lease() time.Duration { return r.leader.req.Lease }

// until is how long a lease is good that was set by a call sent at that time.
func (r *request) until(sent time.Time) instant {
	return r.c.e.instant(sent) + r.lease() - r.c.e.margin(r.lease())
}

// undo has the server forget the request, whatever became of it.
func (r *request) undo() {
	e := r.c.e
	e.cancel(r.c.name, r.unwanted(true))
	if r.former != nil {
		e.cancel(r.c.name, unwantedPredecessor(r.former))
	}
}

// unwanted is what the server is to forget of the request.
func (r *request) unwanted(mark bool) unwanted {
	asked := r.leader.req
	return unwanted{id: r.id.String(), lease: asked.Lease, mark: mark, ticket: asked.Ticket, keep: asked.Keep}
}

func unwantedPredecessor(p *script.Predecessor) unwanted {
	return unwanted{id: p.ID.String(), lease: p.Lease, mark: true}
}

// isQueued notes an answer that says so, and when to ask again.
func (r *request) isQueued(sent time.Time, stamp int64, wait core.Wait) {
	c, e := r.c, r.c.e
	news := !r.queued
	if news {
		c.crowd.knows(1)
		c.closeReaders()
	}
	r.queued, r.stamp, r.holders, r.trouble = true, stamp, wait.Holders, nil
	r.acceptBy = e.instant(sent) + script.AcceptWindow - e.margin(script.AcceptWindow)
	if news && c.shares() {
		c.refuseExcess(wait.Holders)
	}
	c.failTries(busy(wait.Holders), c.waiters.joined)
	if c.waiters.n == 0 {
		c.withdrawIfUnwanted()
		return
	}
	e.inbox.start(e)
	c.tellWaiters(wait)
	next, slack := script.PollInterval, pollSlack
	for _, h := range wait.Holders {
		if ends := max(h.TTL, 0) + time.Millisecond; ends < next { // it may not come back
			next, slack = ends, 0 // a poll before that would be answered as this one was
		}
	}
	e.schedule.set(&r.timer, e.now()+next, slack)
}

// pollSlack is how much earlier a poll may be, to go out together with others.
const pollSlack = 100 * time.Millisecond

// pushed deals with the news that the server has granted the request. The push may be old, and the
// grant over: it is relied on only if it is newer than the last answer that said "queued", and only
// for as long as a grant lasts that was made after that answer.
func (r *request) pushed(p *script.Message) {
	switch now := r.c.e.now(); {
	case !r.queued:
		r.push = p
	case p.Number > r.stamp && now < r.acceptBy:
		r.c.granted(r, p.Grant, now, r.acceptBy, false)
	default:
		r.c.e.schedule.set(&r.timer, now, 0)
	}
}
