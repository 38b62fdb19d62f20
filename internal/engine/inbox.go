package engine

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/deadlock"
	"github.com/lockmw/go/internal/inbox"
	"github.com/lockmw/go/internal/script"
)

// A reader is what inboxes tell of messages.
type reader struct{ e *Engine }

// Message implements inbox.Reader.
func (r reader) Message(channel, payload string) {
	if strings.HasPrefix(payload, deadlock.Word) {
		r.e.detector.Receive(channel, payload)
	} else if m, ok := script.ParseMessage(payload); ok {
		r.e.onMessage(&m)
	}
}

// Subscribed implements inbox.Reader.
func (r reader) Subscribed() {
	r.e.pollThose(func(r *request) bool { return r.asked != r.c.slot.inbox.Subscription() })
}

// Missed implements inbox.Reader.
func (r reader) Missed() { r.e.recovery.plan() }

// Moved implements inbox.Reader.
func (r reader) Moved(from *redis.Client, some []*inbox.Inbox) { r.e.onSlotsMoved(from, some) }

// onMessage deals with a message of a script.
func (e *Engine) onMessage(m *script.Message) {
	switch m.Kind {
	case script.Granted:
		e.onGrant(m)
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
