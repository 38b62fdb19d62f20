package engine

import (
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// Due has the request be polled for, or sent again.
func (r *request) Due() {
	if r.due() {
		r.c.e.round.polls = append(r.c.e.round.polls, r)
	}
}

// due is Due with the shard locked. It reports whether the request is to be polled for; a
// request that is not queued yet is sent again instead.
func (r *request) due() (poll bool) {
	c, e := r.c, r.c.e
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over:
		return false
	case !r.queued:
		r.tryAgain()
		return false
	}
	r.count(c.waiters.Len)
	r.asked = c.slot.inbox.Subscription()
	e.schedule.SetAfter(&r.timer, script.PollInterval, pollSlack) // whether or not this poll is answered
	return true
}

// polls prepares runs of poll.lua, for many tickets of a key at a time (rule 7 of docs/protocol.md).
func (e *Engine) polls(requests []*request) []*transport.Call {
	type line struct { // of tickets that one run asks for
		key     string
		permits bool
	}
	groups := make(map[line][]*request)
	var calls []*transport.Call
	for _, r := range requests {
		key := line{r.c.key, r.c.isPermit()}
		groups[key] = append(groups[key], r)
		if len(groups[key]) == script.MaxPolled {
			calls = append(calls, e.poll(groups[key]))
			delete(groups, key)
		}
	}
	for _, group := range groups {
		calls = append(calls, e.poll(group))
	}
	return calls
}

// poll prepares a run of poll.lua for tickets of one key.
func (e *Engine) poll(group []*request) *transport.Call {
	p := script.Poll{Keys: &group[0].c.keys, Subscribed: group[0].c.slot.inbox.IsLive(), Permits: group[0].c.isPermit()}
	for _, r := range group {
		p.Tickets = append(p.Tickets, r.ticket())
	}
	k := p.Call(e.sender.Context(), e.scripts, func(a *transport.Reply) { e.onPolled(group, a) })
	k.Timeout = script.PollInterval
	return k
}

// ticket is what poll.lua is told of the request. A push may come meanwhile, and be confirmed.
func (r *request) ticket() script.PolledTicket {
	r.c.shard.mu.Lock()
	defer r.c.shard.mu.Unlock()
	return script.PolledTicket{ID: r.id, Lease: r.lease(), Calls: r.calls}
}

// onPolled deals with the answer to poll.lua.
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
		e.settle(group[0].c.keys, group[0].c.isPermit())
	}
}

// onPolled deals with what poll.lua answered for the request.
func (r *request) onPolled(reply *transport.Reply, a *script.Polled, t *script.TicketAnswer) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over:
		if _, held := c.e.ids.find(r.id.Number()).(*lease); t.Err == nil && t.Outcome == script.Held && !held {
			r.provesLoss()
			r.cancel() // the first cancel may have been refused, and the poll made the lease whole
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
		r.disownOld(reply.Sent, wait.Holders, func() {})
		r.onQueued(reply.Sent, a.Stamp, wait, a.Next)
	default: // it was taken for dead, its grant expired, or the server lost it: queue again in the old place, under a new id
		c.detach(r)
		c.sendRequest(&script.Predecessor{ID: r.id, Lease: r.lease(), Lost: true, Place: r.place})
	}
}

// missesPush reports whether a message of the grant that a poll has found must have been sent to the subscription.
func (r *request) missesPush() bool {
	return !r.pushed && r.hears != 0 && r.hears == r.c.slot.inbox.Subscription()
}

// onPollFailed deals with an error as onFailed does: the wait continues only if that helps. So a queued call learns what a new
// call of the process learns. While somebody mends the server it keeps its place.
func (r *request) onPollFailed(err error) {
	switch {
	case r.c.e.sender.Context().Err() != nil: // Close ends the wait
		return
	case transport.IsPassing(err), transport.IsMended(err):
		r.lastErr = err
		return
	}
	r.c.detach(r)
	r.cancel()
	r.c.failWaiters(&core.AcquireError{Err: transport.Failure(err)})
}
