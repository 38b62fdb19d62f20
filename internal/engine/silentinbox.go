package engine

import (
	"sync"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
)

// A silentInbox finds out that the subscription brings no messages any more, though its connection answers: it stays
// on a master that was deposed. A poll finds a grant then that was made while this process was subscribed, and the
// message of it does not come. The inbox subscribes anew.
//
// Two grants by polling would prove nothing: the polls that follow each new subscription find grants, too.
type silentInbox struct {
	e *Engine

	mu      sync.Mutex
	missing map[string]missing // by the ids of grants
	timer   timers.Timer
	pause   time.Duration // until the inbox subscribes anew again
	last    clock.Instant // when it did
}

// A missing message should come to an inbox until a time.
type missing struct {
	inbox *inbox
	by    clock.Instant
}

const (
	// lateMessage is how much later than the poll that found a grant its message may come.
	lateMessage = 250 * time.Millisecond
	// Pauses between new subscriptions double until a message comes.
	shortestPause = 2 * time.Second
	longestPause  = time.Minute
	// maxMissing bounds how many messages are waited for at once: one is enough.
	maxMissing = 16
)

func (m *silentInbox) init(e *Engine) {
	m.e, m.missing, m.pause = e, make(map[string]missing), shortestPause
	m.timer.Of(m)
}

// expect notes that a poll has found a grant whose message has to come to b.
func (m *silentInbox) expect(id string, b *inbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.missing) == maxMissing {
		return
	}
	by := clock.Now().Add(lateMessage)
	if m.missing[id] = (missing{b, by}); len(m.missing) == 1 {
		m.e.schedule.Set(&m.timer, by, 0)
	}
}

// heard notes the message of a grant.
func (m *silentInbox) heard(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.missing, id)
	m.pause = shortestPause
}

// Due has the inbox subscribe anew if one has not.
func (m *silentInbox) Due() {
	m.mu.Lock()
	now, next := clock.Now(), timers.Never
	var late *inbox
	for id, one := range m.missing {
		if one.by <= now {
			late = one.inbox
			delete(m.missing, id)
		} else {
			next = min(next, one.by)
		}
	}
	if next != timers.Never {
		m.e.schedule.Set(&m.timer, next, 0)
	}
	renew := late != nil && (m.last == 0 || now.Sub(m.last) >= m.pause)
	if renew {
		if m.last != 0 {
			m.pause = min(2*m.pause, longestPause)
		}
		m.last = now
		clear(m.missing)
	}
	m.mu.Unlock()
	if renew {
		m.e.inboxes.subscribeAnew(late)
	}
}
