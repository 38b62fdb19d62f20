package engine

import (
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/inbox"
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
	p := script.Poll{Keys: &group[0].c.keys, Permits: group[0].c.isPermit()}
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

// A reader is what inboxes tell of messages.
type reader struct{ e *Engine }

// Message implements inbox.Reader.
func (r reader) Message(channel, payload string) {
	e := r.e
	if strings.HasPrefix(payload, deadlock.Word) {
		e.detector.Receive(channel, payload)
		return
	}
	m, ok := script.ParseMessage(payload)
	if !ok {
		return
	}
	switch m.Kind {
	case script.Granted:
		e.onGrant(&m)
	case script.Contended:
		switch v := e.find(m.ID).(type) {
		case *lease:
			v.c.shard.mu.Lock()
			v.contendedAt = clock.Now()
			v.setContended(true)
			v.endRun()
			v.c.shard.mu.Unlock()
		case *request: // it has the lock, and the answer that says so is on the way
			v.c.shard.mu.Lock()
			v.contended = true
			v.c.shard.mu.Unlock()
		}
	case script.TakenAway:
		switch v := e.find(m.ID).(type) {
		case *lease:
			v.onTakenAway()
		case *request:
			v.onTakenAway()
		}
	}
}

// Subscribed implements inbox.Reader.
func (r reader) Subscribed() {
	r.e.pollThose(func(r *request) bool { return r.asked != r.c.slot.inbox.Subscription() })
}

// Missed implements inbox.Reader.
func (r reader) Missed() { r.e.recovery.plan() }

// IsIdle implements inbox.Reader: nobody holds or waits, and what has ended is long ago.
func (r reader) IsIdle() bool { return r.e.ids.isEmpty() && r.e.identity.isIdle(clock.Now()) }

// Beat implements inbox.Reader. A beat goes out with the round, before polls (rule 7 of docs/protocol.md).
func (r reader) Beat(b *inbox.Inbox) {
	e := r.e
	beat := script.Beat{Alive: e.layout.AliveOf(b.Name), Inbox: b.Address, Subscribed: b.IsLive()}
	k := beat.Call(e.sender.Context(), e.scripts, func(a *transport.Reply) {
		if known, err := script.BeatAnswer(a); err == nil && !known && b.MayBeForgotten(a.Sent) {
			e.pollThose(func(r *request) bool { return r.c.slot.inbox == b })
		}
	})
	k.Timeout = script.BeatInterval
	e.round.beats = append(e.round.beats, k)
}

// Moved implements inbox.Reader.
func (r reader) Moved(from *redis.Client, some []*inbox.Inbox) { r.e.onSlotsMoved(from, some) }

// onGrant deals with a message that the server has granted the lock to an id. One that no script has written is ignored,
// before anything else is made of it (rule 27 of docs/protocol.md).
func (e *Engine) onGrant(m *script.Message) {
	n, ours := e.idStem.Number(m.ID)
	if !ours || !m.IsProven(e.secretOf(m.Holder)) {
		e.warnOfForgery()
		return
	}
	e.inboxes.Heard(m.ID)
	switch v := e.ids.find(n).(type) {
	case *request:
		if v.accepts(m) {
			return
		}
	case *lease:
		return // known already
	}
	// No caller wants the id any more. It was released or cancelled, but the cancel may have been lost
	// with its connection.
	if key, ok := e.layout.Key(m.Holder); ok && e.unwanted.allow(clock.Now()) {
		e.cancelID(e.layout.KeySet(key), cancelTarget{key: lockKey{key, m.Permit}, id: m.ID, lease: script.AcceptWindow, mark: true})
	}
}

// find returns the *request or *lease of an id; nil if the id is over or of another engine.
func (e *Engine) find(id string) any {
	if n, ok := e.idStem.Number(id); ok {
		return e.ids.find(n)
	}
	return nil
}

// accepts uses a message of a grant. It returns false if no caller waits for the id or holds it.
func (r *request) accepts(m *script.Message) bool {
	r.c.shard.mu.Lock()
	defer r.c.unlock()
	if r.over {
		if r.run != nil && m.Number > r.run.lease.tokens.Last() { // else the message is older than the lease
			r.provesLoss()
		}
		_, held := r.c.e.ids.find(r.id.Number()).(*lease) // an answer that came just before granted it
		return held
	}
	r.onPush(m)
	return true
}

// pollAll polls for all queued requests now.
func (e *Engine) pollAll() { e.pollThose(func(*request) bool { return true }) }

// pollThose polls now for the queued requests that are chosen.
func (e *Engine) pollThose(chosen func(r *request) bool) {
	for _, r := range e.ids.requests() {
		r.c.shard.mu.Lock()
		if !r.over && r.queued && chosen(r) {
			e.schedule.SetNow(&r.timer)
		}
		r.c.shard.mu.Unlock()
	}
}

// Anybody who may publish to an inbox may send any message, and repeat what was heard there (rule 27 of docs/protocol.md). So a
// message without a proof is a hint: it leads to a question to the server, whose answer decides. A flood of messages must not
// become a flood of commands.

const (
	// hintGap is how much time is between two questions about one id that messages lead to.
	hintGap = 50 * time.Millisecond
	// maxUnwanted is how many cancels in a second follow from messages that grant what no caller wants. Each of these ids was
	// cancelled before, and a grant that nobody renews ends by itself.
	maxUnwanted = 64
)

// nextHint returns when the next question may be sent that a message leads to. at is when the last one was, or is going to be, 0
// for never: if it is going to be, no other is needed.
func nextHint(at, now clock.Instant) (next clock.Instant, needed bool) {
	switch {
	case at == 0:
		return now, true
	case at > now:
		return at, false
	}
	return max(now, at.Add(hintGap)), true
}

// pollSoon polls for r, as a message says that there is news.
func (r *request) pollSoon() {
	var needed bool
	if r.hintAt, needed = nextHint(r.hintAt, clock.Now()); needed {
		r.c.e.schedule.Set(&r.timer, r.hintAt, 0)
	}
}

// renewSoon renews l, as a message says that there is news.
func (l *lease) renewSoon() {
	var needed bool
	if l.hintAt, needed = nextHint(l.hintAt, clock.Now()); needed {
		l.planRenewal(l.hintAt)
	}
}

// onTakenAway deals with a message that an operator took the lease away. The answer to a renewal says whether he did.
func (l *lease) onTakenAway() {
	l.c.shard.mu.Lock()
	defer l.c.unlock()
	if !l.over {
		l.takenAway = true
		l.renewSoon()
	}
}

// gone is the loss of a lease that the server does not know any more.
func (l *lease) gone() error {
	if l.takenAway {
		return errTakenAway
	}
	return errDeleted
}

// onTakenAway deals with a message that an operator took away what was granted to the request. A push that comes after it may be
// a copy of an older one: none is relied on before the server says that the request is queued.
func (r *request) onTakenAway() {
	r.c.shard.mu.Lock()
	defer r.c.unlock()
	r.push, r.acceptBy = nil, 0
	switch {
	case r.over:
	case r.queued:
		r.pollSoon()
	default:
		r.doubted = true
	}
}

// An unwanted counts cancels that messages lead to.
type unwanted struct {
	mu    sync.Mutex
	since clock.Instant
	n     int
}

// allow reports whether one more may go out.
func (u *unwanted) allow(now clock.Instant) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.since) >= time.Second {
		u.since, u.n = now, 0
	}
	u.n++
	return u.n <= maxUnwanted
}

// warnOfForgery logs that a message of a grant came that no script has written.
func (e *Engine) warnOfForgery() {
	if missed, ok := e.forged.Allow("forged"); ok {
		e.cfg.Logger.Warn("lockmw: ignored a message that grants a lock and was not sent by the lock server; look who may publish to these channels",
			"channels", e.layout.InboxPrefix()+"*", "suppressed", missed)
	}
}
