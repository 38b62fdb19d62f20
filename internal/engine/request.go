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
	wait   bool  // queue if the lock is not free
	joined int64 // how many had joined the cohort when it was asked for

	over     bool          // granted, failed, or no longer wanted
	queued   bool          // the server has a ticket of it
	stamp    int64         // the fencing counter when the server last said so
	acceptBy instant       // until when a push newer than that may be relied on
	place    int64         // in the server's order of tickets
	holders  []core.Holder // who was in the way then
	push     *push         // came before the answer to acquire.lua
	trouble  error         // of the last poll
	timer    timer         // the next poll, or the next try while a Cluster moves the slot
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
	four := c.name.keys()
	keys := append(append(make([]any, 0, 6), four[:]...), c.name.done(r.id.String()))
	args := []any{
		r.id, r.lease().Milliseconds(), e.inbox.address, asked.Owner, queueing(e.inbox.flag(), queued),
	}
	if free > 1 || asked.Mode != core.Exclusive || trace != "" || r.former != nil {
		args = append(args, free, string(asked.Mode), trace)
	}
	if f := r.former; f != nil {
		place := ""
		if f.place > 0 {
			place = itoa(f.place)
		}
		if f.place > 0 || f.id.copied() {
			keys = append(keys, c.name.done(f.id.String()))
		}
		args = append(args, f.id.String(), place, doneMillis)
	}
	return newCall(r.leader.ctx, e.scripts.acquire, keys, args, r.answered)
}

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
		c.granted(r, licence{first: token, count: 1}, r.until(a), true)
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
		c.granted(r, lic, r.until(a), true)
	case 0:
		stamp, position := a.int(), int(a.int())
		r.place = a.int()
		holders := a.holder(c.e.inboxPrefix())
		if a.err != nil {
			r.failed(a.err)
			return
		}
		if !r.wait {
			c.leave(r)
			if r.id.copied() {
				r.undo() // the other copy may still arrive
			}
			c.failTries(busy(holders), r.joined)
			c.ask(nil) // for those that have come meanwhile: to them the answer may be old
			return
		}
		r.isQueued(a.sent, stamp, holders)
		c.tellContended(holders, position)
		if p := r.push; p != nil {
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
		c.e.cancel(c.name, r.former.id.String(), r.former.lease, true)
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
	e.cancel(r.c.name, r.id.String(), r.lease(), true)
	if r.former != nil {
		e.cancel(r.c.name, r.former.id.String(), r.former.lease, true)
	}
}

// isQueued notes an answer that says so, and when to ask again.
func (r *request) isQueued(sent time.Time, stamp int64, holders []core.Holder) {
	e := r.c.e
	r.queued, r.stamp, r.holders, r.trouble = true, stamp, holders, nil
	r.acceptBy = e.instant(sent) + acceptWindow - e.margin(acceptWindow)
	e.inbox.start(e)
	r.c.failTries(busy(holders), r.c.waiters.joined)
	next, slack := pollInterval, pollSlack
	for _, h := range holders {
		if ends := max(h.TTL, 0) + time.Millisecond; ends < next { // it may not come back
			next, slack = ends, 0 // a poll before that would be answered as this one was
		}
	}
	e.schedule.set(&r.timer, e.now()+next, slack)
}

// pollSlack is how much earlier a poll may be, to go out together with others.
const pollSlack = 20 * time.Millisecond

// pushed deals with the news that the server has granted the request. The push may be old, and the
// grant over: it is relied on only if it is newer than the last answer that said "queued", and only
// for as long as a grant lasts that was made after that answer.
func (r *request) pushed(p *push) {
	switch now := r.c.e.now(); {
	case !r.queued:
		r.push = p
	case p.licence.first > r.stamp && now < r.acceptBy:
		r.c.granted(r, p.licence, r.acceptBy, false)
	default:
		r.c.e.schedule.set(&r.timer, now, 0)
	}
}

// polled deals with what poll.lua says of the request.
func (r *request) polled(a *reply, stamp int64, holders []core.Holder) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	if r.over {
		return // who ended it has cancelled it
	}
	switch kind := a.int(); {
	case a.err != nil:
		r.pollFailed(a.err)
	case kind == 1:
		lic := a.licence()
		if a.err != nil {
			r.pollFailed(a.err)
			return
		}
		c.granted(r, lic, r.until(a), true)
	case kind == 0:
		r.isQueued(a.sent, stamp, holders)
	default: // taken for dead, or the server lost it: back to the old place, under a new id
		c.leave(r)
		c.ask(&former{id: r.id, lease: r.lease(), place: r.place})
	}
}

// pollFailed notes the trouble and goes on waiting, unless waiting cannot help.
func (r *request) pollFailed(err error) {
	if !isFinal(err) {
		r.trouble = err
		return
	}
	r.c.leave(r)
	r.undo()
	r.c.fail(&core.AcquireError{Err: failure(err)})
}

// isFinal reports whether the server will go on refusing.
func isFinal(err error) bool {
	for _, prefix := range []string{"WRONGTYPE", "NOPERM", "NOAUTH", "WRONGPASS"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}

// due is called when the timer is: it returns a poll, or sends the request again.
func (r *request) due() *call {
	c, e := r.c, r.c.e
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over:
		return nil
	case !r.queued:
		r.send()
		return nil
	}
	e.schedule.set(&r.timer, e.now()+pollInterval, pollSlack) // whether or not this one is answered
	keys, args := c.name.keys(), []any{e.inbox.flag(), r.id.String(), r.lease().Milliseconds()}
	k := newCall(e.caller.ctx, e.scripts.poll, keys[:], args, r.pollAnswered)
	k.timeout = pollInterval
	return k
}

// pollAnswered deals with the answer to poll.lua.
func (r *request) pollAnswered(a *reply) {
	more, stamp := a.int(), a.int()
	if a.err != nil {
		r.polled(a, 0, nil)
		return
	}
	answers := a.list()
	holders := a.holder(r.c.e.inboxPrefix())
	if a.err == nil && len(answers) != 1 {
		a.strange()
	}
	if a.err != nil {
		r.polled(a, 0, nil)
		return
	}
	r.polled(answers[0], stamp, holders)
	if more == 1 {
		r.c.e.settle(r.c.name)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// traceField is a traceparent fit to be stored in a ticket, whose fields are separated by spaces.
func traceField(trace string) string {
	if len(trace) > 100 || strings.ContainsFunc(trace, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return trace
}
