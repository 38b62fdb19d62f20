package engine

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/core"
)

// A request is one id's way to the lock: acquire.lua is sent, and answered with a grant or a place in
// the queue, from which a push or a poll brings the grant. The shard's mutex guards it.
type request struct {
	c      *cohort
	id     *id
	leader *waiter // on whose behalf it is sent
	former *former
	wait   bool // queue if the lock is not free
	asked  inquiry

	over     bool          // granted, failed, or no longer wanted
	queued   bool          // the server has a ticket of it
	stamp    int64         // the fencing counter when the server last said so
	acceptBy instant       // until when a push newer than that may be relied on
	place    int64         // in the server's order of tickets
	holders  []core.Holder // who was in the way then
	push     *push         // came before the answer to acquire.lua

	contended bool  // a message said that others wait, before an answer that it is granted
	trouble   error // of the last poll, or of the renewal before it
	timer     timer // the next poll, or the next try while a Cluster moves the slot
}

// send runs acquire.lua again.
func (r *request) send() { r.c.e.caller.start(r.call()) }

// call prepares a run of acquire.lua.
func (r *request) call() *call {
	c, e := r.c, r.c.e
	asked := r.leader.req
	free, queued := c.tokens()
	if !r.wait {
		queued = 0
	}
	trace := traceField(asked.Trace)
	five := c.name.keys()
	keys := append(append(make([]any, 0, 8), five[:]...), c.name.done(r.id.String()))
	args := []any{
		r.id, r.lease().Milliseconds(), e.inbox.address, asked.Owner, queueing(e.inbox.flag(), queued),
	}
	special := r.former != nil || asked.Keep > 0
	extra := special || free > 1 || trace != "" || asked.Mode == core.Read
	if extra || asked.Mode != core.Exclusive {
		args = append(args, asked.Mode.String())
	}
	if extra {
		args = append(args, free, trace)
	}
	if special {
		keys, args = r.special(keys, args)
	}
	return newCall(r.leader.ctx, e.scripts.acquire, keys, args, r.answered)
}

// special adds what the request takes the place of, and how long its own place is kept.
func (r *request) special(keys, args []any) (allKeys, allArgs []any) {
	former, place, mark := "", "", int64(0)
	over := r.id
	if f := r.former; f != nil {
		former, over = f.id.String(), f.id
		if f.place > 0 {
			place = itoa(f.place)
		}
		if f.place > 0 || f.id.copied() {
			mark = doneMillis
		}
	}
	n, asked := &r.c.name, r.leader.req
	keys = append(keys, n.done(over.String()))
	keep := asked.Keep
	if keep > 0 {
		keys = append(keys, n.kept(asked.Ticket))
		keep += min(asked.Wait, maxWaitKept)
	}
	return keys, append(args, former, place, mark, keep.Milliseconds())
}

// maxWaitKept is for how long of its wait the place of a call is kept whose process is killed.
const maxWaitKept = 10 * time.Minute

// queueing is what acquire.lua is told for the case that the lock is not free.
func queueing(flag string, tokens int) any {
	switch tokens { // most often; spares an allocation
	case 0:
		return "-0"
	case 1:
		if flag == "+" {
			return "+1"
		}
		return "-1"
	}
	return flag + strconv.Itoa(tokens)
}

// answered deals with the answer to acquire.lua.
func (r *request) answered(a *reply) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	if r.over {
		if a.err == nil || !isReply(a.err) {
			r.undo() // the first one may have overtaken the acquire
		}
		return
	}
	if token, ok := a.token(); ok {
		c.granted(r, licence{first: token, count: 1}, c.e.instant(a.sent), r.until(a), true)
		return
	}
	kind := a.int()
	if a.err != nil {
		r.failed(a.err)
		return
	}
	switch kind {
	case 1:
		lic := a.licence()
		if a.err != nil {
			r.failed(a.err)
			return
		}
		c.granted(r, lic, c.e.instant(a.sent), r.until(a), true)
	case 0:
		stamp := a.int()
		wait := core.Wait{Position: int(a.int()), Queued: int(a.int())}
		r.place = a.int()
		wait.Holders = a.holders(c.e.inboxPrefix())
		if a.err != nil {
			r.failed(a.err)
			return
		}
		if !r.wait {
			c.leave(r)
			if r.id.copied() {
				r.undo() // the other copy may still arrive
			}
			c.failTries(busy(wait.Holders), r.asked.joined)
			c.ask(nil) // for those that have come meanwhile: to them the answer may be old
			return
		}
		r.isQueued(a.sent, stamp, wait)
		if p := r.push; p != nil && !r.over {
			r.pushed(p)
		}
	case 2:
		r.send()
	default: // the id is over; it must not be used again
		c.leave(r)
		c.ask(nil)
	}
}

// failed ends the request, or tries again where that helps.
func (r *request) failed(err error) {
	c := r.c
	if isMoving(err) {
		c.e.schedule.set(&r.timer, c.e.now()+movingDelay, 0)
		return
	}
	c.leave(r)
	if copies := r.id.copies.Load(); copies > 1 || copies == 1 && !isReply(err) {
		r.undo()
	} else if r.former != nil {
		c.e.cancel(c.name, r.former.unwanted())
	}
	if !r.leader.ended() {
		c.fail(&core.AcquireError{Err: failure(err)})
	}
	c.ask(nil)
}

// movingDelay is the pause between tries while a Cluster moves a slot.
const movingDelay = 20 * time.Millisecond

// lease is what the caller asked for.
func (r *request) lease() time.Duration { return r.leader.req.Lease }

// until is how long the lease is good that a has set.
func (r *request) until(a *reply) instant {
	return r.c.e.instant(a.sent) + r.lease() - r.c.e.margin(r.lease())
}

// undo has the server forget the request, whatever became of it.
func (r *request) undo() {
	e := r.c.e
	e.cancel(r.c.name, r.unwanted(true))
	if r.former != nil {
		e.cancel(r.c.name, r.former.unwanted())
	}
}

// unwanted is what the server is to forget of the request.
func (r *request) unwanted(mark bool) unwanted {
	asked := r.leader.req
	return unwanted{id: r.id.String(), lease: asked.Lease, mark: mark, ticket: asked.Ticket, keep: asked.Keep}
}

func (f *former) unwanted() unwanted {
	return unwanted{id: f.id.String(), lease: f.lease, mark: true}
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
	r.acceptBy = e.instant(sent) + acceptWindow - e.margin(acceptWindow)
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
	next, slack := pollInterval, pollSlack
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
func (r *request) pushed(p *push) {
	switch now := r.c.e.now(); {
	case !r.queued:
		r.push = p
	case p.number > r.stamp && now < r.acceptBy:
		r.c.granted(r, p.licence, now, r.acceptBy, false)
	default:
		r.c.e.schedule.set(&r.timer, now, 0)
	}
}

// isFinal reports whether the server will go on refusing.
func isFinal(err error) bool {
	if isWrongType(err) {
		return true
	}
	for _, prefix := range []string{"NOPERM", "NOAUTH", "WRONGPASS"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// traceField is a traceparent fit to be stored in a ticket, whose fields are separated by spaces.
func traceField(trace string) string {
	if len(trace) > 100 || strings.ContainsFunc(trace, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return trace
}
