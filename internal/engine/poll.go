package engine

import (
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
)

// due is called when the timer is: it reports whether the request is to be polled for, or sends it
// again.
func (r *request) due() (poll bool) {
	c, e := r.c, r.c.e
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over:
		return false
	case !r.queued:
		r.send()
		return false
	}
	e.schedule.set(&r.timer, e.now()+script.PollInterval, pollSlack) // whether or not this one is answered
	return true
}

// polls prepares runs of poll.lua, for many tickets of a key at a time.
func (e *Engine) polls(requests []*request) []*script.Call {
	groups := make(map[string][]*request)
	var calls []*script.Call
	for _, r := range requests {
		key := r.c.id.key
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
func (e *Engine) poll(group []*request) *script.Call {
	p := script.Poll{Keys: &group[0].c.name, Subscribed: e.inbox.live.Load()}
	for _, r := range group {
		p.Tickets = append(p.Tickets, script.PolledTicket{ID: r.id, Lease: r.lease()})
	}
	k := p.Call(e.sender.Context(), e.scripts, func(a *script.Reply) { e.polled(group, a) })
	k.Timeout = script.PollInterval
	return k
}

// polled deals with the answer to poll.lua.
func (e *Engine) polled(group []*request, reply *script.Reply) {
	a, err := reply.Polled(len(group), e.layout.InboxPrefix())
	for i, r := range group {
		t := script.TicketAnswer{Err: err}
		if err == nil {
			t = a.Tickets[i]
		}
		r.polled(reply, &a, &t)
	}
	if a.More && err == nil {
		e.settle(group[0].c.name)
	}
}

// polled deals with what poll.lua says of the request.
func (r *request) polled(reply *script.Reply, a *script.Polled, t *script.TicketAnswer) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over: // who ended it has cancelled it
	case t.Err != nil:
		r.pollFailed(t.Err)
	case t.Outcome == script.Held:
		c.granted(r, t.Grant, c.e.instant(reply.Sent), r.until(reply.Sent), true)
	case t.Outcome == script.Queued:
		wait := a.Wait
		wait.Position = t.Position
		r.isQueued(reply.Sent, a.Stamp, wait)
	default: // taken for dead, or the server lost it: back to the old place, under a new id
		c.leave(r)
		c.ask(&script.Predecessor{ID: r.id, Lease: r.lease(), Place: r.place})
	}
}

// pollFailed notes the trouble and goes on waiting, unless waiting cannot help.
func (r *request) pollFailed(err error) {
	if !script.IsFinal(err) {
		r.trouble = err
		return
	}
	r.c.leave(r)
	r.undo()
	r.c.fail(&core.AcquireError{Err: script.Failure(err)})
}
