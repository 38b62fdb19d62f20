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

// A reader receives messages from the inboxes.
type reader struct{ e *Engine }

// Message implements inbox.Reader.
func (r reader) Message(channel, payload string) {
	e := r.e
	if strings.HasPrefix(payload, deadlock.MessagePrefix) {
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
			if v.grantBatch != nil {
				v.grantBatch.closed = true
			}
			v.c.shard.mu.Unlock()
		case *request: // granted, but the answer is still in flight
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
	r.e.pollIf(func(r *request) bool { return r.asked != r.c.slot.inbox.Subscription() })
}

// Missed implements inbox.Reader.
func (r reader) Missed() { r.e.recovery.plan() }

// IsIdle implements inbox.Reader: the process holds nothing and waits for nothing, and its last end was long ago.
func (r reader) IsIdle() bool { return r.e.ids.isEmpty() && r.e.watch.IsIdle(clock.Now()) }

// Beat implements inbox.Reader. A beat goes out with the round, before polls (rule 7 of docs/protocol.md).
func (r reader) Beat(b *inbox.Inbox) {
	e := r.e
	beat := script.Beat{Alive: e.layout.AliveOf(b.Name), Inbox: b.Address, Subscribed: b.IsLive()}
	k := beat.Call(e.sender.Context(), e.scripts, func(a *transport.Reply) {
		known, err := script.BeatAnswer(a)
		switch {
		case err == nil && !known && b.TicketsMayBeGone(a.Sent):
			e.pollIf(func(r *request) bool { return r.c.slot.inbox == b })
		case transport.IsReply(err): // peeks may still be allowed; a poll finds out what is wrong
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

// onGrant handles a message that the server has granted the lock to an id. A message that no script has written is ignored before
// anything else is done with it (rule 27 of docs/protocol.md).
func (e *Engine) onGrant(m *script.Message) {
	n, ours := e.idStem.Number(m.ID)
	if !ours || !m.IsProven(e.secretOf(m.Holder)) {
		e.warnOfForgery()
		return
	}
	e.inboxes.Arrived(m.ID)
	switch v := e.ids.find(n).(type) {
	case *request:
		if v.accepts(m) {
			return
		}
	case *lease:
		return // known already
	}
	// No caller wants the id. It was released or cancelled, but its cancel may have been lost with a connection.
	if key, ok := e.layout.Key(m.Holder); ok && e.unwantedCancels.allow(clock.Now()) {
		e.cancelID(e.layout.KeySet(key), cancelTarget{key: lockKey{key, m.Permit}, id: m.ID, lease: script.AcceptWindow, mark: true})
	}
}

// find returns the *request or *lease of an id, or nil if the id has ended or belongs to another engine.
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
		if r.grantBatch != nil && m.Number > r.grantBatch.lease.tokens.Last() { // otherwise the message is older than the lease
			r.loseEarlierLease()
		}
		return r.isHeld()
	}
	r.onPush(m)
	return true
}

// onPush handles a message that the server has granted the request (rule 6 of docs/protocol.md). The message may be old, and the
// grant may have expired. It is reliable only if its number is above the stamp of the last answer "queued", and only in the
// accept window after that answer's call was sent. If less than half of the window is left, polls have failed, and the hold might
// expire before it is renewed. Any other message leads to a question.
func (r *request) onPush(p *script.Message) {
	r.pushed = true
	switch now := clock.Now(); {
	case !r.queued:
		r.push = p
		if r.outage.paused { // an earlier try whose answer was lost has queued it
			r.askSoon(none)
		}
	case r.c.e.cfg.Replicas.Count > 0:
		if next, needed := nextHint(r.hintAt, now); needed && next == now {
			r.hintAt = now
			r.confirm()
		} else {
			r.askSoon(pollIt)
		}
	case p.Number > r.stamp && r.acceptBy.Sub(now) >= script.AcceptWindow/2 && r.isWhole(p.Grant):
		r.c.onGranted(r, p.Grant, now, r.acceptBy, false)
		if l := r.c.lease; l != nil && l.id == r.id && !r.contended {
			l.startGrantBatch(p.GrantBatch)
		}
	default:
		r.push = p
		r.confirmSoon()
	}
}

// confirm sends acquire.lua again for a request that the server has granted: the grant counts only once replicas have it, which
// neither a message nor a poll shows (rule 21 of docs/protocol.md).
func (r *request) confirm() {
	if r.confirming {
		return // the answer is on its way
	}
	r.confirming = true
	r.send()
}

// Any client that may publish to an inbox can send any message, and repeat messages that it received there (rule 27 of
// docs/protocol.md). So a message without a proof is only a hint: it leads to a question, and the server's answer decides. A
// flood of messages must not become a flood of commands.

const (
	// hintGap separates two questions about one id that messages lead to.
	hintGap = 50 * time.Millisecond
	// maxUnwanted limits the cancels per second that messages for unwanted grants lead to. Each of these ids was cancelled
	// before, and a grant that is not renewed expires.
	maxUnwanted = 64
)

// nextHint returns when the next question that a message leads to may be sent. at is when the last one was or will be sent, 0 for
// never. If it has yet to be sent, no other is needed.
func nextHint(at, now clock.Instant) (next clock.Instant, needed bool) {
	switch {
	case at == 0:
		return now, true
	case at > now:
		return at, false
	}
	return max(now, at.Add(hintGap)), true
}

// confirmSoon asks whether the last push is still valid. It polls if several holds may exist together.
func (r *request) confirmSoon() {
	if mode := r.leader.Req.Mode; mode == core.Read || mode == core.Permit {
		r.askSoon(pollIt)
	} else {
		r.askSoon(confirmIt)
	}
}

// askSoon asks a question because of a message, or tries again if the request is not queued.
func (r *request) askSoon(ask question) {
	var needed bool
	if r.hintAt, needed = nextHint(r.hintAt, clock.Now()); needed {
		r.next = max(r.next, ask)
		r.c.e.schedule.Set(&r.timer, r.hintAt, 0)
	}
}

// renewSoon renews l because of a message.
func (l *lease) renewSoon() {
	var needed bool
	if l.hintAt, needed = nextHint(l.hintAt, clock.Now()); needed {
		l.planRenewal(l.hintAt)
	}
}

// onTakenAway handles a message that an operator released the lease by force. The answer to a renewal shows whether that is true.
func (l *lease) onTakenAway() {
	l.c.shard.mu.Lock()
	defer l.c.unlock()
	if !l.over {
		l.takenAway = true
		l.renewSoon()
	}
}

// gone returns the loss of a lease that is gone from the server.
func (l *lease) gone() error {
	if l.takenAway {
		return errTakenAway
	}
	return errDeleted
}

// onTakenAway handles a message that an operator released the request's grant by force. A later push may be a copy of an older
// one, so no push is reliable until the server answers "queued".
func (r *request) onTakenAway() {
	r.c.shard.mu.Lock()
	defer r.c.unlock()
	r.push, r.acceptBy, r.distrust = nil, 0, clock.Now()
	switch {
	case r.over:
	case r.queued:
		r.askSoon(pollIt)
	default:
		r.doubted = true
	}
}

// A cancelLimit counts the cancels that messages lead to.
type cancelLimit struct {
	mu    sync.Mutex
	since clock.Instant
	n     int
}

// allow reports whether another cancel may be sent.
func (u *cancelLimit) allow(now clock.Instant) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.since) >= time.Second {
		u.since, u.n = now, 0
	}
	u.n++
	return u.n <= maxUnwanted
}

// warnOfForgery logs that a message of a grant arrived which no script has written.
func (e *Engine) warnOfForgery() {
	if missed, ok := e.forged.Allow("forged"); ok {
		e.cfg.Logger.Warn("lockmw: ignored a forged grant message; check which clients may publish to these channels",
			"channels", e.layout.InboxPrefix()+"*", "suppressed", missed)
	}
}
