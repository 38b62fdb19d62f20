package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
	"github.com/lockmw/go/internal/transport"
)

// A recovery is what follows when a server answers again that was away: it may be another one by now, or an older state
// of the same, which has lost what was written last. All leases are renewed at once, so that holders learn what they
// have lost; tickets are polled for; and what has ended lately is ended again, so that it does not stay taken for its lease
// (rule 13 of docs/protocol.md).
type recovery struct {
	e    *Engine
	away atomic.Bool // an answer was missing, and none has come since

	begun atomic.Int64 // an instant: when the last one began; 0: never

	mu       sync.Mutex
	timer    timers.Timer
	planned  clock.Instant // when the timer is due; 0: not set
	last     clock.Instant // when the leases were renewed; 0: never
	replaced clock.Instant // when that was, or is going to be, as a node was deposed; 0: never
}

// recoveryPause is how much time is between two recoveries: of several servers one may be away for long. So much is
// between two for nodes that were deposed, too, as they may not agree who that is.
const recoveryPause = time.Second

func (y *recovery) init(e *Engine) {
	y.e = e
	y.timer.Of(y)
	e.sender.Watch(y.note, y.deposed)
}

// note deals with how a command ended.
func (y *recovery) note(err error) {
	switch {
	case isAway(err):
		y.away.Store(true)
	case y.away.Load() && (err == nil || transport.IsReply(err) && !transport.IsFinal(err)) && y.away.CompareAndSwap(true, false):
		y.plan()
	}
}

// ended deals with the end of an id that the server has confirmed, by a run that was sent at that time. If a recovery has
// begun since then it has taken the id to be in use, and another server may have answered.
func (y *recovery) ended(sent clock.Instant) {
	if begun := y.begun.Load(); begun != 0 && sent < clock.Instant(begun) {
		y.plan()
	}
}

// deposed deals with a node of a Cluster that is no master any more. Another one has its slots.
func (y *recovery) deposed() {
	y.mu.Lock()
	if y.replaced <= clock.Now() { // else one is planned
		y.replaced = y.pauseAfter(y.replaced)
	}
	y.planAt(y.replaced)
	y.mu.Unlock()
	y.e.inboxes.Follow()
}

// isAway reports whether an error says that the server is away, or is not what it was. That an answer took longer than a
// caller had time says nothing.
func isAway(err error) bool {
	return transport.IsPassing(err) && !transport.IsMoving(err) && !errors.Is(err, context.DeadlineExceeded) && !transport.IsPoolTimeout(err)
}

// plan has the recovery begin soon.
func (y *recovery) plan() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.planAt(y.pauseAfter(y.last))
}

// pauseAfter returns now, or when there was a pause after the last time if that is later.
func (y *recovery) pauseAfter(last clock.Instant) clock.Instant {
	now := clock.Now()
	if last == 0 {
		return now
	}
	return max(now, last.Add(recoveryPause))
}

// planAt has the recovery begin then, or earlier if it is planned for that. The mutex is locked.
func (y *recovery) planAt(at clock.Instant) {
	if y.planned != 0 && y.planned <= at {
		return
	}
	y.planned = max(at, 1)
	y.e.schedule.Set(&y.timer, at, 0)
}

// Due recovers.
func (y *recovery) Due() {
	e := y.e
	now := clock.Now()
	y.mu.Lock()
	y.last, y.planned = now, 0
	y.mu.Unlock()
	y.begun.Store(int64(now))
	for _, l := range e.ids.leases() {
		l.c.shard.mu.Lock()
		if !l.over {
			l.renewAfter(now, 0)
			l.reschedule()
		}
		l.c.shard.mu.Unlock()
	}
	e.pollAll()
	e.repeatReleases()
}
