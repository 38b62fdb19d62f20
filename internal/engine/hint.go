package engine

import (
	"sync"
	"time"

	"github.com/lockmw/go/internal/clock"
)

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
		l.renewAfter(l.hintAt, 0)
		l.reschedule()
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
