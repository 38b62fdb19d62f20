package inbox

import (
	"sync/atomic"
	"time"

	"github.com/lockmw/go/internal/clock"
	"github.com/lockmw/go/internal/timers"
)

// beats has the process show once a second that it lives, for as long as something waits for messages to an inbox.
type beats struct {
	waiting atomic.Int64
	armed   atomic.Bool
	began   atomic.Int64 // a clock.Instant: since when it beats
	timer   timers.Timer
	of      *Inbox
	all     *Inboxes
}

const (
	beatInterval = time.Second
	// beatSlack is by how much a beat may be early, to go out together with others.
	beatSlack = 100 * time.Millisecond
)

// Wait notes that n more wait for messages to b. The first of them has just been queued, which shows that the process lives.
func (all *Inboxes) Wait(b *Inbox, n int) {
	if b.waiting.Add(int64(n)) > 0 && b.armed.CompareAndSwap(false, true) {
		b.all, b.of = all, b
		b.began.Store(int64(clock.Now()))
		b.timer.Of(&b.beats)
		all.Schedule.SetAfter(&b.timer, beatInterval, beatSlack)
	}
}

// MayBeForgotten reports what it means that the server did not know of the process at a beat that was sent then: its tickets
// may have been taken for dead, unless it has only begun to wait.
func (b *Inbox) MayBeForgotten(sent clock.Instant) bool {
	return sent.Sub(clock.Instant(b.began.Load())) > 2*beatInterval
}

// Due beats.
func (t *beats) Due() {
	if t.waiting.Load() <= 0 {
		t.armed.Store(false)
		t.all.Wait(t.of, 0) // one may just have come
		return
	}
	t.all.Reader.Beat(t.of)
	t.all.Schedule.SetAfter(&t.timer, beatInterval, beatSlack)
}
