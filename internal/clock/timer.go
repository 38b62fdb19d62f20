package clock

import (
	"sync"
	"time"
)

// Interval is the longest time until a timer notices that time was skipped. The timers of Go stop with the monotonic clock.
const Interval = 500 * time.Millisecond

// A Timer calls a function once, at its Instant or, after a sleep of the machine, within Interval of the resume.
type Timer struct {
	mu    sync.Mutex
	at    Instant
	f     func()
	timer *time.Timer
	over  bool
}

// AfterFunc returns a Timer that calls f in a goroutine of its own when d has passed.
func AfterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{at: Now().Add(d), f: f}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(min(d, Interval), t.onTick)
	return t
}

// Stop prevents the call. It returns false if f was already called or the Timer already stopped.
func (t *Timer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	was := t.over
	t.over = true
	return !was
}

func (t *Timer) onTick() {
	DetectSkips()
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	if left := Until(t.at); left > 0 {
		t.timer.Reset(min(left, Interval))
		t.mu.Unlock()
		return
	}
	t.over = true
	t.mu.Unlock()
	t.f()
}
