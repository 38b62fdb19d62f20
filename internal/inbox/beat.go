package inbox

import (
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
)

// beats makes the process show once a second that it is alive, as long as it waits for messages to an inbox.
type beats struct {
	waiting atomic.Int64
	armed   atomic.Bool
	began   atomic.Int64 // a clock.Instant: when the beats began
	timer   timers.Timer
	inbox   *Inbox
	all     *Inboxes
}

const (
	beatInterval = time.Second
	// beatSlack is how early a beat may be sent, so that it can share a pipeline.
	beatSlack = 100 * time.Millisecond
)

// AddWaits counts n more waits for messages to b. The first of them has just been queued, which shows that the process is alive.
func (all *Inboxes) AddWaits(b *Inbox, n int) {
	if b.waiting.Add(int64(n)) > 0 && b.armed.CompareAndSwap(false, true) {
		b.all, b.inbox = all, b
		b.began.Store(int64(clock.Now()))
		b.timer.SetOwner(&b.beats)
		all.Schedule.SetAfter(&b.timer, beatInterval, beatSlack)
	}
}

// TicketsMayBeGone reports whether the server may have removed the tickets of the process as dead. The caller has learnt from a
// beat, which was sent at that time, that the server had no entry of the process. This is normal for a process that has only just
// begun to wait.
func (b *Inbox) TicketsMayBeGone(sent clock.Instant) bool {
	return sent.Sub(clock.Instant(b.began.Load())) > 2*beatInterval
}

// Due sends a beat.
func (t *beats) Due() {
	if t.waiting.Load() <= 0 {
		t.armed.Store(false)
		t.all.AddWaits(t.inbox, 0) // a wait may just have begun
		return
	}
	t.all.Reader.Beat(t.inbox)
	t.all.Schedule.SetAfter(&t.timer, beatInterval, beatSlack)
}
