package engine

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/core"
	"github.com/lockmw/go/internal/inbox"
)

// The replicas that have acknowledged a hold belong to one master. If its slot moves to another one, the hold rests on
// nothing until the replicas of that one have it, too (rule 21 of docs/protocol.md). So a process that wants replicas is
// subscribed in each slot in which it holds locks: the node ends the subscription when the slot leaves it.

// movedGrace is for how long a hold counts whose slot has moved, until it is acknowledged again. It is less than a master takes
// to be replaced.
const movedGrace = time.Second

var errSlotMoved = fmt.Errorf("%w: the slot has moved since, to a master whose replicas have not acknowledged it yet", core.ErrUnavailable)

// followsSlots reports whether holds depend on which master has their slots.
func (e *Engine) followsSlots() bool { return e.cfg.Replicas.Count > 0 && e.slots.cluster }

// onSlotsMoved renews the leases in slots that have left a node. If the node is still a master, its replicas have not taken its
// place: none of them need be where the slots are now.
func (e *Engine) onSlotsMoved(from *redis.Client, inboxes []*inbox.Inbox) {
	if !e.followsSlots() || from == nil {
		return
	}
	now := clock.Now()
	elsewhere := e.sender.IsMaster(from)
	left := make(map[*inbox.Inbox]bool)
	for _, b := range inboxes {
		left[b] = true
	}
	for _, l := range e.ids.leases() {
		if !left[l.c.slot.inbox] {
			continue
		}
		l.c.shard.mu.Lock()
		if elsewhere {
			l.c.slot.movedAt.Store(int64(now))
			l.doubt(now)
		} else if !l.over {
			l.renewAfter(now, 0)
			l.reschedule()
		}
		l.c.shard.mu.Unlock()
	}
}

// doubt has the lease end soon unless it is renewed. Its slot has moved, and the replicas there may not have it.
func (l *lease) doubt(now clock.Instant) {
	if l.over || l.moved {
		return
	}
	l.moved = true
	l.expires.Store(min(l.expires.Load(), int64(now.Add(movedGrace))))
	l.renewAfter(now, 0)
	l.reschedule()
}

// listen has the process hear when the slot of the lease moves.
func (l *lease) listen(sent clock.Instant) {
	e, s := l.c.e, l.c.slot
	if !e.followsSlots() {
		return
	}
	l.listens = true
	s.inbox.Listeners.Add(1)
	e.inboxes.Use(s.inbox)
	if sent < clock.Instant(s.movedAt.Load()) {
		l.doubt(clock.Now())
	}
}
