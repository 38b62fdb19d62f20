package engine

import (
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/script"
	"github.com/lockmw/go/internal/transport"
)

// pollSlack is by how much a poll may be early, to go out together with others.
const pollSlack = 100 * time.Millisecond

// Due has the request be asked for, or sent again.
func (r *request) Due() {
	round := &r.c.e.round
	switch r.due() {
	case peekIt:
		round.peeks = append(round.peeks, r)
	case confirmIt:
		round.confirms = append(round.confirms, r)
	case pollIt:
		round.polls = append(round.polls, r)
	}
}

// A question is how the server is asked what became of a queued request. One that says more is greater.
type question int8

const (
	none      question = iota
	peekIt             // whether all is as it was
	confirmIt          // by a peek that does not wait for its turn, whether a push still counts, or the holder is gone
	pollIt
)

// due is Due with the shard locked. A request that is not queued yet is sent again.
func (r *request) due() question {
	c, e := r.c, r.c.e
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over:
		return none
	case !r.queued:
		r.tryAgain()
		return none
	}
	now := clock.Now()
	ask := r.next
	switch {
	case ask == none, ask == peekIt && !r.mayPeek(now):
		ask = pollIt
	case ask == peekIt && now >= r.ends:
		ask = confirmIt
	}
	// Whether or not there is an answer.
	if next := now.Add(script.PollInterval); r.ends > now && r.ends < next {
		e.schedule.Set(&r.timer, r.ends, 0)
	} else {
		e.schedule.Set(&r.timer, next, pollSlack)
	}
	if ask <= r.asking {
		return none
	}
	r.asking = ask
	return ask
}

// mayPeek reports whether a peek will do. A poll keeps the queue, tells how many calls wait, and grants what can be granted.
func (r *request) mayPeek(now clock.Instant) bool {
	return r.position > 0 && r.calls == r.c.waiters.Len && now.Sub(r.answered) < script.KeepInterval && !r.mayBeServed()
}

// A polled is tickets of one key that are polled for together (rule 7 of docs/protocol.md). It implements transport.Paced.
type polled []*request

// polls divides requests into those that one run of poll.lua is for.
func polls(requests []*request) (due []transport.Due) {
	by := clock.Now().Add(script.PollInterval)
	for _, group := range divide(requests, script.MaxPolled, (*cohort).lockKey) {
		due = append(due, transport.Due{Key: group[0].c.keys.Holder(), Deadline: by, Call: polled(group)})
	}
	return due
}

// divide divides requests into groups of at most so many that are alike.
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

// Prepare prepares a run of poll.lua for those that still wait.
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

// begin begins to ask for the request, and reports whether that is needed: not if more is to be asked. The shard is locked.
func (r *request) begin(ask question) bool {
	if r.over || r.asking != ask {
		return false
	}
	r.asking, r.asked = none, r.c.slot.inbox.Subscription()
	return true
}

// dropAll notes that requests are not asked for. The next time is planned already.
func dropAll(requests []*request, ask question) {
	for _, r := range requests {
		r.c.shard.mu.Lock()
		if r.asking == ask {
			r.asking = none
		}
		r.c.shard.mu.Unlock()
	}
}

// A peeked is tickets that one run of peek.lua is about. It implements transport.Paced.
type peeked struct {
	ask      question
	requests []*request
}

// peeks divides requests into those that one run of peek.lua is about. Those of several locks share one where scripts may have their
// keys.
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

// Prepare prepares a run of peek.lua for those that still wait.
func (p peeked) Prepare() *transport.Call {
	var run script.Peek
	var group []*request
	var hears []int64
	for _, r := range p.requests {
		r.c.shard.mu.Lock()
		if r.begin(p.ask) {
			group, hears = append(group, r), append(hears, r.asked)
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
				r.onPeeked(reply.Sent, hears[i], a.Stamp, &a.Tickets[i])
			}
		}
	})
	k.Timeout = script.PollInterval
	return k
}

// Drop implements transport.Paced.
func (p peeked) Drop() { dropAll(p.requests, p.ask) }

// onPeeked deals with the answer to a peek that was sent at that time, with that subscription. Whatever is new leads to a poll.
func (r *request) onPeeked(sent clock.Instant, hears, stamp int64, a *script.PeekedState) {
	c := r.c
	c.shard.mu.Lock()
	defer c.unlock()
	switch {
	case r.over || !r.queued:
		return
	case a.Granted && r.confirms(sent, a):
		c.onGranted(r, r.push.Grant, sent, sent.Add(a.TTL-time.Millisecond-c.e.margin(script.AcceptWindow)), false)
		return
	case stamp < 0 || a.Position == 0 || a.Position != r.position || a.TTL == 0 || r.behindReaders != a.Reads || !r.isBehind(a):
		r.behindReaders = a.Reads
		r.pollNow()
		return
	}
	r.next = peekIt
	r.rely(sent, stamp, hears)
	if r.noteEnd(a.TTL); clock.Until(r.ends) < script.PollInterval {
		r.pollAt(r.ends)
	}
}

// leastConfirmed is what must be left of a grant that a peek confirms, as the hold has to be renewed in that time.
const leastConfirmed = script.AcceptWindow / 4

// confirms reports whether a peek confirms the last push. A hold by it lasts no longer than the server has it now: if that is little,
// a poll makes it longer.
func (r *request) confirms(sent clock.Instant, a *script.PeekedState) bool {
	return r.push != nil && r.push.Grant.Token == a.Token && a.TTL >= leastConfirmed && sent >= r.distrust && r.c.e.cfg.Replicas.Count == 0
}

// isBehind reports whether a peek tells of the same hold as the last answer, and notes how long that may last. Permits cannot be told
// apart, but a grant or a release changes the position, unless it matters to nobody.
func (r *request) isBehind(a *script.PeekedState) bool {
	if r.c.isPermit() {
		return true
	}
	if len(r.holders) == 0 || r.holders[0].Token != a.Token || r.holders[0].Lingers != a.Lingers {
		return false
	}
	if h := r.holders[0]; len(r.holders) == 1 && (h.TTL-a.TTL).Abs() >= time.Second {
		h.TTL = a.TTL
		r.holders = []core.Holder{h} // callers have the former one
	}
	return true
}

// onPeekFailed deals with an error. If it lasts, a poll meets it, too, and ends the wait.
func (r *request) onPeekFailed(err error) {
	r.c.shard.mu.Lock()
	defer r.c.shard.mu.Unlock()
	switch {
	case r.over:
	case transport.IsPassing(err):
		r.lastErr = err
	default:
		r.pollNow()
	}
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
		e.pollForRest(group[0].c.keys, group[0].c.isPermit())
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
			r.loseEarlierLease()
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
		r.disownEnded(reply.Sent, wait.Holders, func() {})
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

// pollAll polls for all queued requests now.
func (e *Engine) pollAll() { e.pollThose(func(*request) bool { return true }) }

// pollThose polls now for the queued requests that are chosen.
func (e *Engine) pollThose(chosen func(r *request) bool) {
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
