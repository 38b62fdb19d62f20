package engine

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// pollSlack is how early a poll may be sent, so that it can share a pipeline.
const pollSlack = 100 * time.Millisecond

// A question is a way to ask the server about a queued request. A stronger question is greater.
type question int8

const (
	none      question = iota
	peekIt             // has anything changed?
	confirmIt          // a peek that does not wait for its turn: is a push still valid, or has the holder gone?
	pollIt
)

// Due adds a question about the request to the round. It sends a request again that has not been queued.
func (r *request) Due() {
	c, e := r.c, r.c.e
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over:
		return
	case !r.queued:
		r.outage.paused = false
		r.send()
		return
	}
	now := clock.Now()
	ask := r.next
	switch {
	case ask == none, ask == peekIt && !r.mayPeek(now):
		ask = pollIt
	case ask == peekIt && now >= r.ends:
		ask = confirmIt
	}
	// Schedule the next question, whether or not this one is answered.
	if next := now.Add(script.PollInterval); r.ends > now && r.ends < next {
		e.schedule.Set(&r.timer, r.ends, 0)
	} else {
		e.schedule.Set(&r.timer, next, pollSlack)
	}
	if ask > r.asking {
		r.asking = ask
		e.round.questions[ask] = append(e.round.questions[ask], r)
	}
}

// mayPeek reports whether a peek is enough. A poll extends the queue's life, reports the number of calls, and grants what can be
// granted.
func (r *request) mayPeek(now clock.Instant) bool {
	return r.position > 0 && r.calls == r.c.waiters.Len && now.Sub(r.answered) < script.KeepInterval && !r.mayBeServed()
}

// A polled is a group of tickets of one key that share a poll (rule 7 of docs/protocol.md). It implements transport.Paced.
type polled []*request

// polls divides requests into groups, one for each execution of poll.lua.
func polls(requests []*request) (due []transport.Due) {
	by := clock.Now().Add(script.PollInterval)
	for _, group := range divide(requests, script.MaxPolled, (*cohort).lockKey) {
		due = append(due, transport.Due{Key: group[0].c.keys.Holder(), Deadline: by, Call: polled(group)})
	}
	return due
}

// divide divides requests into groups of the same kind, each with at most most members.
func divide[K comparable](requests []*request, most int, kind func(*cohort) K) (groups [][]*request) {
	at := make(map[K]int) // the index of the last group of a kind
	for _, r := range requests {
		k := kind(r.c)
		i, ok := at[k]
		if !ok || len(groups[i]) == most {
			i = len(groups)
			at[k], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// Prepare prepares an execution of poll.lua for the tickets that still wait.
func (p polled) Prepare() *transport.Call {
	c := p[0].c
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	run := script.Poll{Keys: &c.keys, Permits: c.isPermit()}
	var group []*request
	for _, r := range p {
		if r.begin(pollIt) {
			r.count(r.c.waiters.Len)
			group = append(group, r)
			run.Tickets = append(run.Tickets, script.PolledTicket{ID: r.id, Lease: r.lease(), Calls: r.calls})
		}
	}
	if group == nil {
		return nil
	}
	e := c.e
	k := run.Call(e.sender.Context(), e.scripts, func(a *transport.Reply) { e.onPolled(group, a) })
	k.Timeout = script.PollInterval
	return k
}

// Drop implements transport.Paced.
func (p polled) Drop() { dropAll(p, pollIt) }

// begin marks the question as asked. It reports false if the question is no longer needed, or a stronger one waits. The shard is
// locked.
func (r *request) begin(ask question) bool {
	if r.over || r.asking != ask {
		return false
	}
	r.asking, r.asked = none, r.c.slot.inbox.Subscription()
	return true
}

// dropAll notes that the questions were not sent. The next ones are already scheduled.
func dropAll(requests []*request, ask question) {
	for _, r := range requests {
		r.c.shard.mu.Lock()
		if r.asking == ask {
			r.asking = none
		}
		r.c.shard.mu.Unlock()
	}
}

// A peeked is a group of tickets that share an execution of peek.lua. It implements transport.Paced.
type peeked struct {
	ask      question
	requests []*request
}

// peeks divides requests into groups, one for each execution of peek.lua. Different locks share a group where one script may use
// keys of several locks.
func (e *Engine) peeks(requests []*request, ask question) (due []transport.Due) {
	by := clock.Now().Add(script.PollInterval)
	kind := func(c *cohort) string { return c.keys.Fence() }
	if len(requests) > 1 && !e.sender.CanMultiKey() {
		kind = func(c *cohort) string { return c.key }
	}
	for _, group := range divide(requests, script.MaxPeeked, kind) {
		due = append(due, transport.Due{Key: group[0].c.keys.Holder(), Deadline: by, Call: peeked{ask, group}})
	}
	return due
}

// Prepare prepares an execution of peek.lua for the tickets that still wait.
func (p peeked) Prepare() *transport.Call {
	var run script.Peek
	var group []*request
	var subscriptions []int64
	for _, r := range p.requests {
		r.c.shard.mu.Lock()
		if r.begin(p.ask) {
			group, subscriptions = append(group, r), append(subscriptions, r.asked)
			run.Tickets = append(run.Tickets, script.PeekedTicket{ID: r.id, Keys: &r.c.keys, Mode: r.leader.Req.Mode})
		}
		r.c.shard.mu.Unlock()
	}
	if group == nil {
		return nil
	}
	e := group[0].c.e
	k := run.Call(e.sender.Context(), e.scripts, func(reply *transport.Reply) {
		a, err := script.PeekAnswer(reply, len(group))
		for i, r := range group {
			if err != nil {
				r.onPeekFailed(err)
			} else {
				r.onPeeked(reply.Sent, subscriptions[i], a.Stamp, &a.Tickets[i])
			}
		}
	})
	k.Timeout = script.PollInterval
	return k
}

// Drop implements transport.Paced.
func (p peeked) Drop() { dropAll(p.requests, p.ask) }

// onPeeked handles the answer to a peek that was sent at that time, with that subscription. Anything new leads to a poll.
func (r *request) onPeeked(sent clock.Instant, subscription, stamp int64, a *script.PeekedState) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over || !r.queued:
		return
	case a.Granted && r.confirms(sent, a):
		c.onGranted(r, r.push.Grant, sent, sent.Add(a.TTL-time.Millisecond-c.e.cfg.margin(script.AcceptWindow)), false)
		return
	case stamp < 0 || a.Position == 0 || a.Position != r.position || a.TTL == 0 || r.behindReaders != a.Reads || !r.isBehind(a):
		r.behindReaders = a.Reads
		r.pollNow()
		return
	}
	r.next = peekIt
	r.expectPush(sent, stamp, subscription)
	if r.noteEnd(a.TTL); clock.Until(r.ends) < script.PollInterval {
		r.pollAt(r.ends)
	}
}

// leastConfirmed is how much of a grant must be left when a peek confirms it, so that the hold can be renewed in time.
const leastConfirmed = script.AcceptWindow / 4

// confirms reports whether a peek confirms the last push. The hold then lasts as long as the server keeps it at present; if that
// is too short, a poll extends it.
func (r *request) confirms(sent clock.Instant, a *script.PeekedState) bool {
	return r.push != nil && r.push.Grant.Token == a.Token && a.TTL >= leastConfirmed && sent >= r.distrust && r.c.e.cfg.Replicas.Count == 0
}

// isBehind reports whether a peek found the holder of the last answer, and records how long that hold may last. A peek cannot
// tell permits apart, but a grant or a release changes the position, unless it makes no difference.
func (r *request) isBehind(a *script.PeekedState) bool {
	if r.c.isPermit() {
		return true
	}
	if len(r.holders) == 0 || r.holders[0].Token != a.Token || r.holders[0].Lingers != a.Lingers {
		return false
	}
	if h := r.holders[0]; len(r.holders) == 1 && (h.TTL-a.TTL).Abs() >= time.Second {
		h.TTL = a.TTL
		r.holders = []core.Holder{h} // callers have the old slice
	}
	return true
}

// onPeekFailed handles an error. If the error persists, a poll also meets it and ends the wait.
func (r *request) onPeekFailed(err error) {
	r.c.shard.mu.Lock()
	defer r.c.shard.mu.Unlock()
	switch {
	case r.over:
	case transport.IsTemporary(err):
		r.lastErr = err
	default:
		r.pollNow()
	}
}

// onPolled handles the answer to poll.lua.
func (e *Engine) onPolled(group []*request, reply *transport.Reply) {
	a, err := script.PollAnswer(reply, len(group), e.layout.InboxPrefix())
	for i, r := range group {
		t := script.TicketAnswer{Err: err}
		if err == nil {
			t = a.Tickets[i]
		}
		r.onPolled(reply, &a, &t)
	}
	if a.More && err == nil {
		e.pollForRest(group[0].c.keys, group[0].c.isPermit())
	}
}

// onPolled handles what poll.lua answered for the request.
func (r *request) onPolled(reply *transport.Reply, a *script.Polled, t *script.TicketAnswer) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over:
		if t.Err == nil && t.Outcome == script.Held && !r.isHeld() {
			r.loseEarlierLease()
			r.cancel() // the first cancel may have been refused, and the poll has set the whole lease
		}
	case t.Err != nil:
		r.onPollFailed(t.Err)
	case t.Outcome == script.Held:
		if r.missesPush() {
			c.e.inboxes.Expect(r.id.String(), c.slot.inbox)
		}
		if c.e.cfg.Replicas.Count > 0 {
			r.confirm()
			return
		}
		c.onGranted(r, t.Grant, reply.Sent, r.leaseEnd(reply.Sent), true)
	case t.Outcome == script.Queued:
		wait := a.Wait
		wait.Position = t.Position
		r.disownEnded(reply.Sent, wait.Holders, func() {})
		r.onQueued(reply.Sent, a.Stamp, wait, a.Next)
	default: // the ticket was removed as dead, its grant expired, or the server lost it: queue again in the old place, under a new id
		c.detach(r)
		c.sendRequest(&script.Predecessor{ID: r.id, Lease: r.lease(), Lost: true, Place: r.place})
	}
}

// missesPush reports whether a poll has found a grant whose message must have been sent to the present subscription.
func (r *request) missesPush() bool {
	return !r.pushed && r.pushSubscription != 0 && r.pushSubscription == r.c.slot.inbox.Subscription()
}

// onPollFailed handles an error as onFailed does: the wait continues only if waiting may help, so a queued call and a new call of
// the process get the same error. While an operator makes room on a full server, the call keeps its place.
func (r *request) onPollFailed(err error) {
	switch {
	case r.c.e.sender.Context().Err() != nil: // Close ends the wait
		return
	case transport.IsTemporary(err), transport.IsFull(err):
		r.lastErr = err
		return
	}
	r.c.detach(r)
	r.cancel()
	r.c.failWaiters(&core.AcquireError{Err: transport.Failure(err)})
}

// pollIf polls now for the queued requests that match.
func (e *Engine) pollIf(chosen func(r *request) bool) {
	e.eachQueued(func(r *request) {
		if chosen(r) {
			r.pollNow()
		}
	})
}

// eachQueued calls f for each queued request, with its shard locked.
func (e *Engine) eachQueued(f func(r *request)) {
	for _, r := range e.ids.requests() {
		r.c.shard.mu.Lock()
		if !r.over && r.queued {
			f(r)
		}
		r.c.shard.mu.Unlock()
	}
}
