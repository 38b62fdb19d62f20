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
			v.closeGrantBatch()
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
		known, err := script.BeatAnswer(a)
		switch {
		case err == nil && !known && b.MayBeForgotten(a.Sent):
			e.pollThose(func(r *request) bool { return r.c.slot.inbox == b })
		case transport.IsReply(err): // as a peek might not be refused: polls tell what is wrong
			e.eachQueued(func(r *request) {
				if r.c.slot.inbox == b {
					r.next = pollIt
				}
			})
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

// find returns the *request or *lease of an id; nil if the id has ended or is of another engine.
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
		if r.grantBatch != nil && m.Number > r.grantBatch.lease.tokens.Last() { // else the message is older than the lease
			r.loseEarlierLease()
		}
		_, held := r.c.e.ids.find(r.id.Number()).(*lease) // an answer that came just before granted it
		return held
	}
	r.onPush(m)
	return true
}

// onPush deals with a message that the server has granted the request (rule 6 of docs/protocol.md). The
// message may be old, and the grant over. It is relied on only if its number is greater than the stamp of
// the last answer that said "queued", and only for the accept window after that answer was sent. If less than half of
// it is left, polls have failed, and the hold might be over before it is renewed. Any other message leads to a poll.
func (r *request) onPush(p *script.Message) {
	r.pushed = true
	switch now := clock.Now(); {
	case !r.queued:
		r.push = p
		r.c.retryNow() // a try whose answer was lost has queued it
	case r.c.e.cfg.Replicas.Count > 0:
		r.confirm()
	case p.Number > r.stamp && r.acceptBy.Sub(now) >= script.AcceptWindow/2 && r.isWhole(p.Grant):
		r.c.onGranted(r, p.Grant, now, r.acceptBy, false)
		if l := r.c.lease; l != nil && l.id == r.id && !r.contended {
			l.startGrantBatch(p.Run)
		}
	default:
		r.push = p
		r.confirmSoon()
	}
}

// confirm has acquire.lua run for a request that the server has granted: a grant counts only if replicas have it, and
// neither a message nor a poll tells (rule 21 of docs/protocol.md).
func (r *request) confirm() {
	if r.granted {
		return // the answer is on its way
	}
	r.granted = true
	r.send()
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
func (r *request) pollSoon() { r.askSoon(pollIt) }

// confirmSoon asks whether the last push still counts: by a poll if several may hold at a time.
func (r *request) confirmSoon() {
	if mode := r.leader.Req.Mode; mode == core.Read || mode == core.Permit {
		r.pollSoon()
	} else {
		r.askSoon(confirmIt)
	}
}

// askSoon asks as a message demands.
func (r *request) askSoon(ask question) {
	var needed bool
	if r.hintAt, needed = nextHint(r.hintAt, clock.Now()); needed {
		r.next = max(r.next, ask)
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
	r.push, r.acceptBy, r.distrust = nil, 0, clock.Now()
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
