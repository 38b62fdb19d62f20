package inbox

import (
	"sync"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
)

// A deadSubscription detects that a subscription brings no messages any more although its connection answers, for example because
// it is still at a deposed master. The sign is a grant that a poll finds, that was made while this process was subscribed, and
// whose message does not arrive. The inbox then subscribes anew.
//
// Two grants found by polls would not be a sign: the polls that follow each new subscription also find grants.
type deadSubscription struct {
	all *Inboxes

	mu      sync.Mutex
	missing map[string]missing // by the ids of grants
	timer   timers.Timer
	pause   time.Duration // until the inbox may subscribe anew again
	last    clock.Instant // when it last did
}

// A missing message should arrive at an inbox by a given time.
type missing struct {
	inbox *Inbox
	by    clock.Instant
}

const (
	// LateMessage is how long after the poll that found a grant its message may arrive.
	LateMessage         = 250 * time.Millisecond
	minResubscribePause = 2 * time.Second
	// MaxResubscribePause is the longest pause between new subscriptions. The first pause is 2 s, and pauses double until a
	// message arrives.
	MaxResubscribePause = time.Minute
	// maxMissing limits the messages that are waited for at a time. One is enough.
	maxMissing = 16
)

func (m *deadSubscription) init(all *Inboxes) {
	m.all, m.missing, m.pause = all, make(map[string]missing), minResubscribePause
	m.timer.SetOwner(m)
}

// Expect records that a poll has found the grant of an id whose message must arrive at b.
func (all *Inboxes) Expect(id string, b *Inbox) {
	m := &all.dead
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.missing) == maxMissing {
		return
	}
	by := clock.Now().Add(LateMessage)
	if m.missing[id] = (missing{b, by}); len(m.missing) == 1 {
		all.Schedule.Set(&m.timer, by, 0)
	}
}

// Arrived records the message of a grant.
func (all *Inboxes) Arrived(id string) {
	m := &all.dead
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.missing, id)
	m.pause = minResubscribePause
}

// Due subscribes anew if a message has not arrived.
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
			m.pause = min(2*m.pause, MaxResubscribePause)
		}
		m.last = now
		clear(m.missing)
	}
	m.mu.Unlock()
	if renew {
		m.all.Resubscribe(late)
	}
}
