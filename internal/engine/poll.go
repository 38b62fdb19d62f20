package engine

import (
	"github.com/lockmw/go/internal/core"
)

// maxPolled is how many tickets of a key one run of poll.lua asks for.
const maxPolled = 128

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
	e.schedule.set(&r.timer, e.now()+pollInterval, pollSlack) // whether or not this one is answered
	return true
}

// polls prepares runs of poll.lua, for many tickets of a key at a time.
func (e *Engine) polls(requests []*request) []*call {
	groups := make(map[string][]*request)
	var calls []*call
	for _, r := range requests {
		key := r.c.id.key
		groups[key] = append(groups[key], r)
		if len(groups[key]) == maxPolled {
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
func (e *Engine) poll(group []*request) *call {
	keys := group[0].c.name.keys()
	args := append(make([]any, 0, 1+2*len(group)), e.inbox.flag())
	for _, r := range group {
		args = append(args, r.id.String(), r.lease().Milliseconds())
	}
	k := newCall(e.caller.ctx, e.scripts.poll, keys[:], args, func(a *reply) { e.pollAnswered(group, a) })
	k.timeout = pollInterval
	return k
}

// pollAnswered deals with the answer to poll.lua.
func (e *Engine) pollAnswered(group []*request, a *reply) {
	more, stamp := a.int(), a.int()
	wait := core.Wait{Queued: int(a.int())}
	answers := a.list()
	wait.Holders = a.holders(e.inboxPrefix())
	if a.err == nil && len(answers) != len(group) {
		a.strange()
	}
	for i, r := range group {
		if a.err != nil {
			r.polled(a, 0, wait)
		} else {
			r.polled(answers[i], stamp, wait)
		}
	}
	if a.err == nil && more == 1 {
		e.settle(group[0].c.name)
	}
}

// polled deals with what poll.lua says of the request.
func (r *request) polled(a *reply, stamp int64, wait core.Wait) {
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
		c.granted(r, lic, c.e.instant(a.sent), r.until(a), true)
	case kind == 0:
		wait.Position = int(a.int())
		r.isQueued(a.sent, stamp, wait)
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
