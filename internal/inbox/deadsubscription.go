package inbox

import (
	"sync"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
)

// A silent finds out that the subscription brings no messages any more, though its connection answers: it stays
// on a master that was deposed. A poll finds a grant then that was made while this process was subscribed, and the
// message of it does not come. The inbox subscribes anew.
//
// Two grants by polling would prove nothing: the polls that follow each new subscription find grants, too.
type deadSubscription struct {
	all *Inboxes

	mu      sync.Mutex
	missing map[string]missing // by the ids of grants
	timer   timers.Timer
	pause   time.Duration // until the inbox subscribes anew again
	last    clock.Instant // when it did
}

// A missing message should come to an inbox until a time.
type missing struct {
	inbox *Inbox
	by    clock.Instant
}

const (
	// LateMessage is how much later than the poll that found a grant its message may come.
	LateMessage   = 250 * time.Millisecond
	shortestPause = 2 * time.Second
	// LongestPause is the longest pause between new subscriptions. The first is 2 s, and they double until a message comes.
	LongestPause = time.Minute
	// maxMissing bounds how many messages are waited for at once: one is enough.
	maxMissing = 16
)

func (m *deadSubscription) init(all *Inboxes) {
	m.all, m.missing, m.pause = all, make(map[string]missing), shortestPause
	m.timer.Of(m)
}

// Expect notes that a poll has found the grant of an id whose message has to come to b.
func (all *Inboxes) Expect(id string, b *Inbox) { all.dead.expect(id, b) }

// Heard notes the message of a grant.
func (all *Inboxes) Heard(id string) { all.dead.heard(id) }

func (m *deadSubscription) expect(id string, b *Inbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.missing) == maxMissing {
		return
	}
	by := clock.Now().Add(LateMessage)
	if m.missing[id] = (missing{b, by}); len(m.missing) == 1 {
		m.all.Schedule.Set(&m.timer, by, 0)
	}
}

func (m *deadSubscription) heard(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.missing, id)
	m.pause = shortestPause
}

// Due has the inbox subscribe anew if one has not.
func (m *deadSubscription) Due() {
	m.mu.Lock()
	now, next := clock.Now(), timers.Never
	var late *Inbox
	for id, one := range m.missing {
		if one.by <= now {
			late = one.inbox
			delete(m.missing, id)
		} else {
			next = min(next, one.by)
		}
	}
	if next != timers.Never {
		m.all.Schedule.Set(&m.timer, next, 0)
	}
	renew := late != nil && (m.last == 0 || now.Sub(m.last) >= m.pause)
	if renew {
		if m.last != 0 {
			m.pause = min(2*m.pause, LongestPause)
		}
		m.last = now
		clear(m.missing)
	}
	m.mu.Unlock()
	if renew {
		m.all.SubscribeAnew(late)
	}
}
